//! The fuzz targets on their corpus and on seeded mutations of it, without libFuzzer.
//!
//! `SPILLWAY_FUZZ=n` sets how many mutations each of the fast targets gets, the others a hundredth of it. `SPILLWAY_WRITE_CORPUS=1`
//! writes the corpus anew.
#![allow(clippy::unwrap_used)] // Helpers of tests, outside of test functions.

#[path = "../fuzz/src/lib.rs"]
#[allow(clippy::unwrap_used)]
mod targets;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use spillway_binlog::event::{ChecksumAlgorithm, EventType, FormatDescription, control, gtid_list};
use spillway_binlog::fs::crash::Random;
use spillway_binlog::gtid::mariadb::Gtid;

/// Mutations of the fast targets.
const MUTATIONS: u64 = 3_000_000;
/// So many times fewer where each opens a log.
const SLOW: u64 = 100;
const CORPUS_LIMIT: u64 = 100 << 10;

#[test]
fn events_on_any_bytes() {
    fuzz("events", targets::events, 1);
}

#[test]
fn rows_on_any_bytes() {
    fuzz("rows", targets::rows, 4);
}

#[test]
fn files_of_any_bytes() {
    fuzz("file", targets::file, SLOW);
}

#[test]
fn side_files_of_any_bytes() {
    fuzz("side_files", targets::side_files, SLOW);
}

#[test]
fn the_corpus_reaches_what_it_is_for() {
    let rows =
        fs::read_dir(dir("rows")).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    let counters: Vec<_> = rows.map(|input| targets::pack(&input).unwrap()).collect();
    let (events, made): (u64, u64) = counters
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.rows_events_in, sum.1 + one.rows_events_out));
    assert!(events > 50 && made != events, "rows are packed: {events} events to {made}");
}

#[test]
fn the_corpus_is_small() {
    let dirs = ["events", "rows", "file", "side_files"].map(dir);
    let files = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
    assert!((1..=CORPUS_LIMIT).contains(&sizes.sum()));
}

fn dir(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

fn fuzz(name: &str, target: fn(&[u8]), divisor: u64) {
    if std::env::var_os("SPILLWAY_WRITE_CORPUS").is_some() {
        write_corpus(name);
    }
    let mut paths: Vec<_> =
        fs::read_dir(dir(name)).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let corpus: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    corpus.iter().for_each(|input| run(name, target, input));
    let count = std::env::var("SPILLWAY_FUZZ").ok().and_then(|count| count.parse().ok());
    for seed in 0..count.unwrap_or(MUTATIONS) / divisor {
        let mut random = Random(seed);
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..1 + random.below(4) {
            mutate(&mut input, &corpus, &mut random);
        }
        run(name, target, &input);
    }
}

/// Shows the input of a panic: put into the corpus, it is tried first.
fn run(name: &str, target: fn(&[u8]), input: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| target(input)) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("{name} failed on these bytes (xxd -r -p): {hex}");
        std::panic::resume_unwind(panic);
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const NUMBERS: [u32; 9] = [0, 1, 18, 19, 23, 0xff, 0xffff, 0x7fff_ffff, u32::MAX];
    let at = random.below(input.len() + 1);
    let to = (at + 1 + random.below(40)).min(input.len());
    match random.below(8) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..to)),
        2 => {
            let piece = input[at..to].to_vec();
            input.splice(at..at, piece);
        }
        3 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        4 => {
            let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let len = [1, 2, 4][random.below(3)].min(input.len() - at);
            input[at..at + len].copy_from_slice(&number[..len]);
        }
        5 => input[at..to].fill_with(|| random.number().to_le_bytes()[0]),
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

fn write_corpus(name: &str) {
    let inputs = match name {
        "events" => event_inputs(),
        "rows" => rows_inputs(),
        "file" => log_inputs(&["binlog.000001", "binlog.000002", "binlog.000004"], &[0, 1]),
        _ => {
            let mut inputs = log_inputs(&["binlog.index"], &[0]);
            inputs.extend(log_inputs(&["binlog.verified"], &[1]));
            inputs
        }
    };
    fs::create_dir_all(dir(name)).unwrap();
    for (number, input) in inputs.iter().enumerate() {
        fs::write(dir(name).join(format!("{number:02}")), input).unwrap();
    }
}

fn event_inputs() -> Vec<Vec<u8>> {
    let none = ChecksumAlgorithm::None;
    let event =
        |event_type, body: &[u8]| control::event(control::artificial(event_type, 1, 0), body, none);
    let gtid = |domain, server, sequence| Gtid { domain, server, sequence };
    let list = [gtid(0, 1, 6), gtid(0, 2, 7), gtid(7, 1, u64::MAX)];
    let format = FormatDescription {
        server_version: "10.11.19-MariaDB-log".into(),
        created: 7,
        post_header_lengths: (0..171).collect(),
        checksum: ChecksumAlgorithm::Crc32,
    };
    let format = format.to_event(1, 1, 256);
    let query = [&[0; 8][..], &[1, 0, 0, 0, 0, b'd', 0], b"COMMIT"].concat();
    vec![
        event(EventType::ROTATE, &control::rotate_body(4, "binlog.000002")),
        event(EventType::GTID, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]),
        event(EventType::GTID_LIST, &gtid_list::body(&list, 1)),
        event(EventType::GTID_LIST, &gtid_list::body(&[], 0)),
        event(EventType::QUERY, &query),
        format[..format.len() - 4].to_vec(),
        format,
        control::heartbeat(1, 533, "mbin.000001", ChecksumAlgorithm::Crc32),
        b"0-1-100,1-2-7".to_vec(),
    ]
}

/// Pieces of what a server recorded for the packer's tests, without checksums.
fn rows_inputs() -> Vec<Vec<u8>> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rows/workload-10.11-256.binlog.gz");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[4..];
    let (mut inputs, mut input) = (Vec::new(), vec![0]);
    while inputs.len() < 12 && rest.len() > 19 {
        let size = u32::from_le_bytes(rest[9..13].try_into().unwrap());
        let (event, others) = rest.split_at(usize::try_from(size).unwrap());
        let at = input.len();
        input.extend_from_slice(&event[..event.len() - 4]);
        input[at + 9..at + 13].copy_from_slice(&(size - 4).to_le_bytes());
        if input.len() > 2500 && EventType(event[4]) == EventType::XID {
            let next = vec![u8::try_from(inputs.len()).unwrap()];
            let whole = std::mem::replace(&mut input, next);
            inputs.extend(Some(whole).filter(|input| input.len() < 6000));
        }
        rest = others;
    }
    inputs
}

/// Files of a sound log, each with these first bytes.
fn log_inputs(names: &[&str], modes: &[u8]) -> Vec<Vec<u8>> {
    let input = |name: &&str, mode: u8| {
        let path = Path::new("/log").join(name);
        let mut input = vec![mode];
        input.extend(targets::sound_log().get(&path).unwrap());
        input.truncate(6000);
        input
    };
    names.iter().flat_map(|name| modes.iter().map(move |mode| input(name, *mode))).collect()
}
