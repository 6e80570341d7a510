//! Dumps over a whole connection, from a log with made-up transactions.

use std::time::Duration;

use spillway_binlog::Retention;
use spillway_binlog::event::control::parse_rotate;
use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, gtid_list,
};
use spillway_binlog::gtid::mariadb::print_list;

use crate::serve::testing::{Client, SERVER_ID, Stage, event, gtid, standalone, transaction};
use crate::wire::reply::ErrPacket;

const FILE: &str = "binlog.000001";

/// The variables of a MariaDB replica, and a dump by GTID.
async fn replica(stage: &Stage, state: &str, server_id: u32) -> Client {
    let mut client = stage.login("repl").await;
    set(&mut client, "@master_binlog_checksum= @@global.binlog_checksum").await;
    set(&mut client, "@mariadb_slave_capability=4").await;
    set(&mut client, &format!("@slave_connect_state='{state}'")).await;
    dump(&mut client, 2, server_id, "", 4).await;
    client
}

/// The variables of `mariadb-binlog`, and a dump by position that ends at the end.
async fn tool(stage: &Stage, file: &str, position: u32) -> Client {
    let mut client = stage.login("repl").await;
    set(&mut client, "@master_binlog_checksum='NONE'").await;
    set(&mut client, "@mariadb_slave_capability=4").await;
    dump(&mut client, 3, 0, file, position).await;
    client
}

async fn set(client: &mut Client, assignment: &str) {
    assert_eq!(client.query(&format!("SET {assignment}")).await[0], 0, "{assignment}");
}

async fn dump(client: &mut Client, flags: u16, server_id: u32, file: &str, position: u32) {
    let mut payload = vec![0x12];
    payload.extend_from_slice(&position.to_le_bytes());
    payload.extend_from_slice(&flags.to_le_bytes());
    payload.extend_from_slice(&server_id.to_le_bytes());
    payload.extend_from_slice(file.as_bytes());
    client.send(0, &payload).await;
}

/// What came, in short: the type, with `*` on artificial events; `EOF`; or the code of an error.
async fn next(client: &mut Client) -> (String, Vec<u8>) {
    let payload = client.receive().await;
    match payload[0] {
        0xfe => ("EOF".to_owned(), payload),
        0xff => (ErrPacket::parse(&payload).unwrap().code.to_string(), payload),
        _ => {
            let event = payload[1..].to_vec();
            let header = EventHeader::parse(&event).unwrap();
            let mark = if header.flags & 0x20 != 0 { "*" } else { "" };
            (format!("{}{mark}", header.event_type.name()), event)
        }
    }
}

async fn take(client: &mut Client, count: usize) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(next(client).await);
    }
    all
}

async fn until_end(client: &mut Client) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let (name, event) = next(client).await;
        let end = name == "EOF" || name.parse::<u16>().is_ok();
        all.push((name, event));
        if end {
            return all;
        }
    }
}

fn names(events: &[(String, Vec<u8>)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

/// The GTIDs of the transactions sent.
fn gtids(events: &[(String, Vec<u8>)]) -> String {
    let gtids = events.iter().filter(|(name, _)| name == "Gtid");
    let gtids: Vec<_> = gtids.map(|(_, event)| GtidEvent::parse(event).unwrap().gtid).collect();
    print_list(&gtids)
}

async fn message(client: &mut Client) -> (u16, String) {
    let events = until_end(client).await;
    let error = ErrPacket::parse(&events.last().unwrap().1).unwrap();
    (error.code, error.message)
}

#[tokio::test]
async fn a_dump_from_the_start_is_the_file() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2");
    let mut client = tool(&stage, FILE, 4).await;
    let events = until_end(&mut client).await;
    assert_eq!(names(&events)[..3], ["Rotate*", "Format_desc", "Gtid_list"]);
    // Who asks for no checksum gets none in the Rotate before the format description; the file's events keep theirs.
    assert_eq!(events[0].1.len(), 19 + 8 + FILE.len());
    assert_eq!(parse_rotate(&events[0].1).unwrap(), (4, FILE.as_bytes()));
    let end = stage.service.log.end().position;
    let sent: usize = events[1..events.len() - 1].iter().map(|(_, event)| event.len()).sum();
    assert_eq!(sent as u64 + 4, end);
    let last = EventHeader::parse(&events[events.len() - 2].1).unwrap();
    assert_eq!(u64::from(last.end_position), end);
    assert!(client.rest().await.is_empty());
}

#[tokio::test]
async fn a_dump_from_a_position_says_that_its_format_description_is_no_position() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2");
    let all = until_end(&mut tool(&stage, FILE, 4).await).await;
    let first: usize = 4 + all[1..7].iter().map(|(_, event)| event.len()).sum::<usize>();
    let events = until_end(&mut tool(&stage, FILE, u32::try_from(first).unwrap()).await).await;
    assert_eq!(names(&events)[..2], ["Rotate*", "Format_desc"]);
    let format = FormatDescription::parse(&events[1].1).unwrap();
    assert_eq!((format.created, EventHeader::parse(&events[1].1).unwrap().end_position), (0, 0));
    assert_eq!(events[2..], all[7..]);
}

#[tokio::test]
async fn a_replica_by_gtid_gets_what_it_lacks_and_then_what_comes() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2,0-1-3");
    let mut client = replica(&stage, "0-1-2", 2).await;
    let opening = take(&mut client, 4).await;
    assert_eq!(names(&opening), ["Rotate*", "Format_desc", "Gtid_list", "Gtid_list*"]);
    ChecksumAlgorithm::Crc32.verify(&opening[0].1).unwrap();
    assert_eq!(FormatDescription::parse(&opening[1].1).unwrap().created, 0);
    let reached = ChecksumAlgorithm::Crc32.verify(&opening[3].1).unwrap();
    assert_eq!(print_list(&gtid_list::parse(reached).unwrap().0), "0-1-2");
    let header = EventHeader::parse(reached).unwrap();
    assert_eq!((header.server_id, header.timestamp), (SERVER_ID, 0));
    assert_eq!(gtids(&take(&mut client, 4).await), "0-1-3");
    stage.record(&standalone(gtid("0-1-4")));
    assert_eq!(names(&take(&mut client, 2).await), ["Gtid", "Query"]);
}

#[tokio::test]
async fn a_replica_that_comes_late_enters_a_large_file_near_its_position() {
    let stage = Stage::begun("");
    let text = "x".repeat(300_000);
    for sequence in 1..=20 {
        stage.record(&transaction(gtid(&format!("0-1-{sequence}")), &text));
    }
    let mut met = Vec::new();
    for sequence in [1, 12, 13, 14, 15, 16, 20] {
        let mut client = replica(&stage, &format!("0-1-{sequence}"), 2).await;
        let opening = take(&mut client, 3).await;
        let rotate = ChecksumAlgorithm::Crc32.verify(&opening[0].1).unwrap();
        let (position, file) = parse_rotate(rotate).unwrap();
        assert_eq!(file, FILE.as_bytes());
        let format = FormatDescription::parse(&opening[1].1).unwrap();
        let end = EventHeader::parse(&opening[1].1).unwrap().end_position;
        assert_eq!((format.created, end == 0), (0, position > 4));
        // Within the file, what is told first is where the replica stands, or is once it is reached.
        assert_eq!(opening[2].0, if position > 4 { "Gtid_list*" } else { "Gtid_list" });
        let reached = if position > 4 { opening } else { take(&mut client, 1).await };
        let list = ChecksumAlgorithm::Crc32.verify(&reached.last().unwrap().1).unwrap();
        let list = gtid_list::parse(list).unwrap().0;
        assert_eq!(print_list(&list), format!("0-1-{sequence}"));
        if sequence < 20 {
            assert_eq!(gtids(&take(&mut client, 4).await), format!("0-1-{}", sequence + 1));
        }
        met.push(position);
    }
    assert_eq!(met[0], 4);
    assert!(met.is_sorted() && met[1] > 5_000_000 && met[6] > 10_000_000, "{met:?}");
}

#[tokio::test]
async fn a_fresh_replica_learns_of_the_sources_start() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = replica(&stage, "", 2).await;
    let opening = take(&mut client, 7).await;
    assert_eq!(names(&opening)[2..], ["Gtid_list", "Gtid", "Annotate_rows", "Query", "Xid"]);
    assert_ne!(FormatDescription::parse(&opening[1].1).unwrap().created, 0);
}

#[tokio::test]
async fn a_dump_follows_rotations() {
    let stage = Stage::many_files();
    stage.record_all("0-1-1,0-1-2,0-1-3");
    let mut client = replica(&stage, "", 2).await;
    let transaction = ["Gtid", "Annotate_rows", "Query", "Xid"];
    let file = ["Rotate", "Rotate*", "Format_desc", "Gtid_list"];
    take(&mut client, 3).await;
    for number in 2..=3 {
        assert_eq!(names(&take(&mut client, 4).await), transaction);
        let change = take(&mut client, 4).await;
        assert_eq!(names(&change), file);
        let artificial = ChecksumAlgorithm::Crc32.verify(&change[1].1).unwrap();
        let next = format!("binlog.{number:06}");
        assert_eq!(parse_rotate(artificial).unwrap(), (4, next.as_bytes()));
    }
    assert_eq!(gtids(&take(&mut client, 4).await), "0-1-3");
    // Attaching goes to the newest file that will do.
    let mut late = replica(&stage, "0-1-2", 3).await;
    let rotate = next(&mut late).await.1;
    let rotate = ChecksumAlgorithm::Crc32.verify(&rotate).unwrap();
    assert_eq!(parse_rotate(rotate).unwrap().1, b"binlog.000003");
}

#[tokio::test]
async fn an_idle_dump_sends_heartbeats() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = stage.login("repl").await;
    set(&mut client, "@master_binlog_checksum= @@global.binlog_checksum").await;
    set(&mut client, "@mariadb_slave_capability=4").await;
    set(&mut client, "@slave_connect_state='0-1-1'").await;
    set(&mut client, "@master_heartbeat_period= 20000000").await;
    dump(&mut client, 0, 2, "", 4).await;
    let events = take(&mut client, 6).await;
    assert_eq!(names(&events)[3..], ["Gtid_list*", "Heartbeat", "Heartbeat"]);
    let heartbeat = ChecksumAlgorithm::Crc32.verify(&events[4].1).unwrap();
    assert_eq!(&heartbeat[19..], FILE.as_bytes());
    let position = u64::from(EventHeader::parse(heartbeat).unwrap().end_position);
    assert_eq!(position, stage.service.log.end().position);
}

#[tokio::test]
async fn positions_that_cannot_be_are_told_in_mariadbs_words() {
    let stage = Stage::begun("0-1-5");
    stage.record_all("0-1-6,0-1-7");
    let (code, text) = message(&mut tool(&stage, "nosuch.000001", 4).await).await;
    assert_eq!(code, 1236);
    assert_eq!(text, "Could not find first log file name in binary log index file");
    for position in [0, 3, 999_999] {
        let (code, text) = message(&mut tool(&stage, FILE, position).await).await;
        assert!(
            code == 1236
                && text.contains(&format!(
                    "impossible position; the first event '{FILE}' at {position},"
                )),
            "{text}"
        );
    }
    let (code, text) = message(&mut tool(&stage, FILE, 300).await).await;
    assert!(
        code == 1236 && text.starts_with("log event entry exceeded max_allowed_packet"),
        "{text}"
    );
    let (code, text) = message(&mut replica(&stage, "0-1-999", 2).await).await;
    assert_eq!(code, 1236);
    assert_eq!(
        text,
        "Error: connecting slave requested to start from GTID 0-1-999, which is not in the master's binlog"
    );
    let (_, text) = message(&mut replica(&stage, "0-9-6", 2).await).await;
    assert!(text.contains("which is not in the master's binlog. Since the master's"), "{text}");
    for state in ["", "0-1-4"] {
        let (code, text) = message(&mut replica(&stage, state, 2).await).await;
        assert!(
            code == 1236 && text.starts_with("Could not find GTID state requested by slave"),
            "{text}"
        );
    }
    assert_eq!(gtids(&take(&mut replica(&stage, "0-1-5", 2).await, 11).await), "0-1-6,0-1-7");
}

#[tokio::test]
async fn a_replica_ahead_of_a_log_that_lost_its_end_is_held_until_it_has_caught_up() {
    let stage = Stage::behind("");
    stage.record_all("0-1-1,0-1-2");
    let mut client = replica(&stage, "0-1-4", 2).await;
    stage.record_all("0-1-3,0-1-4,0-1-5");
    let mut events = Vec::new();
    while gtids(&events) != "0-1-5" {
        events.push(next(&mut client).await);
    }
    // Ahead of a log that lacks nothing, it is refused.
    let mut client = replica(&stage, "0-1-9", 3).await;
    stage.service.log.set_caught_up();
    let (code, text) = message(&mut client).await;
    assert_eq!(code, 1236);
    assert!(text.contains("0-1-9"), "{text}");
}

#[tokio::test]
async fn who_cannot_read_checksums_gets_none_of_their_events() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = stage.login("repl").await;
    dump(&mut client, 1, 2, FILE, 4).await;
    let events = until_end(&mut client).await;
    assert_eq!(names(&events), ["Rotate*", "1236"]);
}

#[tokio::test]
async fn a_tool_that_knows_no_mariadb_gets_substitutes() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = stage.login("repl").await;
    set(&mut client, "@master_binlog_checksum=@@global.binlog_checksum").await;
    dump(&mut client, 1, 2, &format!("{FILE}\0"), 4).await;
    let events = until_end(&mut client).await;
    let expected = ["Rotate*", "Format_desc", "User var", "Query", "Query", "Query", "Xid", "EOF"];
    assert_eq!(names(&events), expected);
    for (_, event) in &events[..events.len() - 1] {
        ChecksumAlgorithm::Crc32.verify(event).unwrap();
    }
}

#[tokio::test]
async fn until_is_told_and_ends_the_dump() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2,0-1-3");
    let mut client = stage.login("repl").await;
    set(&mut client, "@master_binlog_checksum= @@global.binlog_checksum").await;
    set(&mut client, "@mariadb_slave_capability=4").await;
    set(&mut client, "@slave_connect_state='', @slave_until_gtid='0-1-2'").await;
    dump(&mut client, 2, 2, "", 4).await;
    let events = until_end(&mut client).await;
    assert_eq!(gtids(&events), "0-1-1,0-1-2");
    assert_eq!(names(&events)[events.len() - 2..], ["Gtid_list*", "EOF"]);
    let list = ChecksumAlgorithm::Crc32.verify(&events[events.len() - 2].1).unwrap();
    assert_eq!(gtid_list::parse(list).unwrap(), (vec![gtid("0-1-2")], 1 << 28));
}

#[tokio::test]
async fn semi_synchronous_packets_have_two_more_bytes() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = stage.login("repl").await;
    set(&mut client, "@master_binlog_checksum= @@global.binlog_checksum").await;
    set(&mut client, "@mariadb_slave_capability=4, @rpl_semi_sync_slave= 1").await;
    dump(&mut client, 2, 2, FILE, 4).await;
    for event_type in [EventType::ROTATE, EventType::FORMAT_DESCRIPTION, EventType::GTID_LIST] {
        let payload = client.receive().await;
        assert_eq!(payload[..3], [0, 0xef, 0]);
        assert_eq!(EventHeader::parse(&payload[3..]).unwrap().event_type, event_type);
    }
}

#[tokio::test]
async fn a_replica_that_comes_back_ends_its_old_dump() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut old = replica(&stage, "", 7).await;
    take(&mut old, 7).await;
    let mut new = replica(&stage, "", 7).await;
    take(&mut new, 7).await;
    let (code, text) = message(&mut old).await;
    assert_eq!(code, 4052);
    assert!(
        text.starts_with("A slave with the same server_id as this slave has connected"),
        "{text}"
    );
    stage.record_all("0-1-2");
    assert_eq!(gtids(&take(&mut new, 4).await), "0-1-2");
}

#[tokio::test]
async fn kill_ends_a_dump() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = replica(&stage, "", 7).await;
    take(&mut client, 7).await;
    let mut killer = stage.login("repl").await;
    assert_eq!(killer.query(&format!("KILL {}", client.id)).await[0], 0);
    assert!(client.rest().await.is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_at_once() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let mut client = replica(&stage, "", 7).await;
    take(&mut client, 7).await;
    let Client { stream, task, .. } = client;
    drop(stream);
    tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
    assert!(stage.service.connections.all().is_empty());
}

#[tokio::test]
async fn before_the_first_file_a_dump_waits() {
    let stage = Stage::empty();
    stage.greet("5.5.5-10.11.19-MariaDB");
    let mut tool = tool(&stage, "", 4).await;
    assert_eq!(next(&mut tool).await.0, "EOF");
    let mut waiting = replica(&stage, "", 2).await;
    stage.begin("");
    stage.record_all("0-1-1");
    assert_eq!(gtids(&take(&mut waiting, 7).await), "0-1-1");
}

#[tokio::test]
async fn an_event_of_several_packets_arrives_whole() {
    let stage = Stage::begun("");
    let text = "x".repeat(20 << 20);
    stage.record(&transaction(gtid("0-1-1"), &text));
    let mut client = tool(&stage, FILE, 4).await;
    take(&mut client, 4).await;
    for _ in 0..2 {
        let first = client.receive().await;
        assert_eq!(first.len(), 0xff_ffff);
        let rest = client.receive().await;
        let event = [&first[1..], &rest[..]].concat();
        let event = ChecksumAlgorithm::Crc32.verify(&event).unwrap();
        assert!(event.ends_with(&[b'x'; 1000]));
    }
    assert_eq!(names(&until_end(&mut client).await), ["Xid", "EOF"]);
}

/// Six files of 400 KB: a client that does not read takes the first two or three.
fn record_large(stage: &Stage) {
    for sequence in 1..=6 {
        let gtid = gtid(&format!("0-1-{sequence}"));
        stage.record(&transaction(gtid, &"x".repeat(200_000)));
    }
}

async fn limit_to_newest(stage: &Stage) {
    let log = &stage.service.log;
    log.set_retention(Retention { max_total_size: Some(4096), ..Retention::default() });
    while log.files().len() > 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_replica_in_a_purged_file_is_told_so() {
    let stage = Stage::many_files();
    record_large(&stage);
    let mut client = replica(&stage, "", 9).await;
    // The dump is within the files.
    assert_eq!(next(&mut client).await.0, "Rotate*");
    let purge = stage.service.log.purge_to("binlog.000006").unwrap();
    assert!(purge.held.is_some(), "{purge:?}");
    limit_to_newest(&stage).await;
    let (code, text) = message(&mut client).await;
    assert_eq!(code, 1236);
    assert!(text.contains("required binlog files have been purged"), "{text}");
    // It comes again, and is told the same.
    let (code, text) = message(&mut replica(&stage, "", 9).await).await;
    assert_eq!(code, 1236);
    assert!(text.contains("required binlog files have been purged"), "{text}");
    let by_position = message(&mut tool(&stage, FILE, 4).await).await;
    assert_eq!(by_position.1, "Could not find first log file name in binary log index file");
}

#[tokio::test]
async fn a_client_that_reads_no_more_does_not_hold_a_purged_file() {
    let stage = Stage::many_files_and_no_patience();
    record_large(&stage);
    let mut client = replica(&stage, "", 9).await;
    assert_eq!(next(&mut client).await.0, "Rotate*");
    limit_to_newest(&stage).await;
    let ended = async {
        while !client.task.is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    let metrics = String::from_utf8(stage.registry.text().unwrap()).unwrap();
    assert!(metrics.contains("reason=\"purged\"} 1"), "{metrics}");
}

#[tokio::test]
async fn kill_ends_a_dump_whose_client_reads_no_more() {
    let stage = Stage::begun("");
    // More than the connection holds.
    let text = "x".repeat(4 << 20);
    stage.record(&transaction(gtid("0-1-1"), &text));
    let client = replica(&stage, "", 7).await;
    let progress = || {
        let connection = stage.service.connections.find(u64::from(client.id));
        connection.and_then(|connection| connection.dump())
    };
    let mut killer = stage.login("repl").await;
    while progress().is_none() {
        assert_eq!(killer.single("SELECT 1").await, "1");
    }
    assert_eq!(killer.query(&format!("KILL {}", client.id)).await[0], 0);
    let Client { stream: _unread, task, .. } = client;
    tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
}

#[tokio::test]
async fn damage_is_told_with_its_position_and_never_sent() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2");
    let all = until_end(&mut tool(&stage, FILE, 4).await).await;
    // The size in the header of the second transaction's GTID event.
    let second: usize = 4 + all[1..7].iter().map(|(_, event)| event.len()).sum::<usize>();
    stage.damage(FILE, second as u64 + 9, &[3, 0, 0, 0]);
    let events = until_end(&mut tool(&stage, FILE, 4).await).await;
    assert!(!gtids(&events).contains("0-1-2"));
    let error = ErrPacket::parse(&events.last().unwrap().1).unwrap();
    let place = format!("{FILE} is damaged at position {second}:");
    assert!(error.code == 1236 && error.message.starts_with(&place), "{}", error.message);
}

#[test]
fn lag_is_what_was_not_sent() {
    use std::sync::atomic::Ordering::Relaxed;
    let stage = Stage::many_files();
    stage.record_all("0-1-1,0-1-2");
    let session = stage.session("repl");
    let dump = stage.service.connections.start_dump(&session.connection, 7);
    let files = stage.service.log.files();
    let all: u64 = files.iter().map(|file| file.size).sum();
    assert_eq!(super::lag_bytes(&files, &dump), all);
    dump.file.store(1, Relaxed);
    dump.position.store(100, Relaxed);
    assert_eq!(super::lag_bytes(&files, &dump), all - 100);
    dump.file.store(2, Relaxed);
    assert_eq!(super::lag_bytes(&files, &dump), all - files[0].size - 100);
}

/// Types of later releases, between transactions and within, go out as they were recorded.
#[tokio::test]
async fn events_of_unknown_types_are_served_as_they_came() {
    let stage = Stage::begun("");
    let mut events = transaction(gtid("0-1-1"), "a");
    events.insert(2, event(EventType(120), 1, b"inside"));
    events.insert(0, event(EventType(200), 1, b"between"));
    stage.record(&events);
    stage.record_all("0-1-2");
    for mut client in [tool(&stage, FILE, 4).await, replica(&stage, "", 2).await] {
        let mut sent = Vec::new();
        while gtids(&sent) != "0-1-1,0-1-2" {
            sent.push(next(&mut client).await);
        }
        let bodies = |kind: u8| -> Vec<Vec<u8>> {
            let of_kind = sent.iter().filter(|(_, event)| event[4] == kind);
            of_kind.map(|(_, event)| event[19..event.len() - 4].to_vec()).collect()
        };
        assert_eq!(
            (bodies(120), bodies(200)),
            (vec![b"inside".to_vec()], vec![b"between".to_vec()])
        );
    }
}
