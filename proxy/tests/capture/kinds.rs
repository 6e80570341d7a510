//! Every kind of group there is, and what stands between groups, as a MariaDB's dump has them: recorded as they came, once.

use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, EventType, control};
use spillway_binlog::gtid::mariadb::Gtid;

use super::alignment::{expected, recorded};
use super::scripted::{Group, Mishap, ScriptedServer, dump_len};
use super::upstream::event_of;
use super::*;

const STANDALONE: u8 = 0x29;
const TRANSACTION: u8 = 0x0c;
const IGNORABLE: u16 = 0x80;

fn gtid_event(gtid: Gtid, flags: u8, more: &[u8]) -> Vec<u8> {
    let mut body = gtid.sequence.to_le_bytes().to_vec();
    body.extend_from_slice(&gtid.domain.to_le_bytes());
    body.push(flags);
    body.extend_from_slice(more);
    body.resize(body.len().max(19), 0);
    event_of(gtid.server, 162, &body)
}

fn query(text: &str) -> Vec<u8> {
    event_of(1, 2, &[&[0; 14][..], text.as_bytes()].concat())
}

fn table_map() -> Vec<u8> {
    event_of(1, 19, b"\x07\0\0\0\0\0\x01\0\x01d\0\x01t\0\x01\x03\0\x01")
}

/// A row of one INT, and the statement's end.
fn rows(kind: u8) -> Vec<u8> {
    event_of(1, kind, b"\x07\0\0\0\0\0\x01\0\x01\xff\xfe\x09\0\0\0")
}

/// Rows as `log_bin_compress` leaves them. Nobody looks into them.
fn compressed_rows(kind: u8) -> Vec<u8> {
    event_of(1, kind, b"\x07\0\0\0\0\0\x01\0\x01\xff\x82\x10\x27compressed, as it came")
}

fn unknown(kind: u8, flags: u16) -> Vec<u8> {
    let header = EventHeader {
        timestamp: 1_700_000_000,
        event_type: EventType(kind),
        server_id: 1,
        event_size: 0,
        end_position: 0,
        flags,
    };
    control::event(header, b"something of a later release", ChecksumAlgorithm::Crc32)
}

/// Groups `0-1-1` and on. Each is flags and extra fields of its Gtid event, what comes before that, and what follows.
fn kinds() -> Vec<Group> {
    let xid = || event_of(1, 16, &[9; 8]);
    let incident = || event_of(1, 26, b"\x01\0\x04lost");
    let xa = b"\x01\0\0\0\x01\x01xy";
    let start_alter = [0x02];
    let commit_alter = b"\x04\x09\0\0\0\0\0\0\0";
    let compressed_ddl = || event_of(1, 165, &[&[0; 14][..], b"\x82\x10\x27compressed"].concat());
    type Kind<'a> = (u8, &'a [u8], Vec<Vec<u8>>, Vec<Vec<u8>>);
    let kinds: Vec<Kind<'_>> = vec![
        (STANDALONE, b"", vec![], vec![query("CREATE TABLE t (a INT)")]),
        (TRANSACTION, b"", vec![], vec![table_map(), rows(23), xid()]),
        (0x08, b"", vec![], vec![table_map(), rows(23), query("COMMIT")]),
        (STANDALONE, b"", vec![], vec![compressed_ddl()]),
        (TRANSACTION, b"", vec![incident()], vec![table_map(), rows(24), xid()]),
        (
            0x4c,
            xa,
            vec![],
            vec![table_map(), rows(23), query("XA END X'78',X'79',1"), event_of(1, 38, xa)],
        ),
        (0x8d, xa, vec![], vec![query("XA COMMIT X'78',X'79',1")]),
        (STANDALONE, &start_alter, vec![], vec![query("ALTER TABLE t ADD COLUMN b INT")]),
        (TRANSACTION, b"", vec![], vec![query("SAVEPOINT s"), table_map(), rows(25), xid()]),
        (STANDALONE, commit_alter, vec![], vec![query("ALTER TABLE t ADD COLUMN b INT")]),
        (
            TRANSACTION,
            b"",
            vec![],
            (166..=171)
                .flat_map(|kind| [table_map(), compressed_rows(kind)])
                .chain([xid()])
                .collect(),
        ),
        (
            TRANSACTION,
            b"",
            vec![],
            vec![unknown(120, 0), unknown(43, IGNORABLE), table_map(), rows(30), xid()],
        ),
        (
            STANDALONE,
            b"",
            vec![unknown(28, IGNORABLE), unknown(200, 0)],
            vec![
                event_of(1, 5, b"\x02\x07\0\0\0\0\0\0\0"),
                unknown(120, IGNORABLE),
                query("INSERT INTO t VALUES (NULL)"),
            ],
        ),
        (TRANSACTION, b"", vec![incident(), incident()], vec![query("ROLLBACK")]),
        (0x8d, xa, vec![], vec![query("XA ROLLBACK X'78',X'79',1")]),
    ];
    let group = |(sequence, (flags, more, before, after)): (u64, Kind<'_>)| {
        let gtid = Gtid { domain: 0, server: 1, sequence };
        let events = [before, vec![gtid_event(gtid, flags, more)], after].concat();
        (gtid, events)
    };
    (1..).zip(kinds).map(group).collect()
}

impl Capturing {
    fn wait_group(&self, group: &Group) {
        self.wait_position(&group.0.to_string());
    }
}

#[test]
fn each_kind_of_group_is_recorded_as_it_came_over_a_restart_behind_it() {
    let all = kinds();
    let server = ScriptedServer::start(vec![]);
    let mut capturing = Capturing::start_at(server.address());
    for (number, group) in all.iter().enumerate() {
        server.commit(vec![group.clone()]);
        capturing.wait_group(group);
        if number % 2 == 0 {
            capturing = capturing.restart();
        } else {
            server.disconnect();
        }
    }
    capturing.wait_state(CaptureState::Streaming);
    let dir = capturing.stop_and_keep();
    assert_eq!(recorded(dir.path()), expected(&all));
}

/// At every eleventh byte; `$SPILLWAY_CUT_EVERY` says otherwise for soak runs.
#[test]
fn a_link_cut_or_corrupted_at_any_byte_of_any_kind_of_group_leaves_the_log_of_an_uncut_run() {
    let all = kinds();
    let len = dump_len(&all);
    let step = std::env::var("SPILLWAY_CUT_EVERY").map_or(11, |text| text.parse().unwrap());
    let threads = 32;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let all = &all;
            scope.spawn(move || {
                for at in (thread * step..len).step_by(threads * step) {
                    let server = ScriptedServer::start(all.clone());
                    let mishap = if at % 4 == 3 { Mishap::Flip(at) } else { Mishap::Cut(at) };
                    server.mishaps([mishap]);
                    let capturing = Capturing::start_at(server.address());
                    capturing.wait_group(all.last().unwrap());
                    let dir = capturing.stop_and_keep();
                    assert_eq!(recorded(dir.path()), expected(all), "{mishap:?}");
                }
            });
        }
    });
}
