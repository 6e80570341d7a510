//! The packer on hand-made events: what is packed together, what is not, and where limits bite.

use super::super::event_type::*;
use super::*;

const ANNOTATE: u8 = 160;
/// Post-header, column count, bitmap of the two-column table.
const EMPTY_V1: usize = 8 + 1 + 1;

fn event(event_type: u8, body: &[u8]) -> Vec<u8> {
    let mut event = 1_700_000_000_u32.to_le_bytes().to_vec();
    event.push(event_type);
    event.extend(1_u32.to_le_bytes());
    // As a source sends it: the size counts a checksum, log_pos is set.
    event.extend(size_field(19 + body.len() + 4).to_le_bytes());
    event.extend(4_711_u32.to_le_bytes());
    event.extend(0_u16.to_le_bytes());
    event.extend(body);
    event
}

fn size_field(size: usize) -> u32 {
    u32::try_from(size).unwrap()
}

/// Table `d.t` with (INT, VARCHAR(9000)).
fn table_map(id: u8) -> Vec<u8> {
    let mut body = vec![id, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x01d\0\x01t\0");
    body.extend([2, 3, 15, 2, 0x28, 0x23, 0]);
    event(TABLE_MAP, &body)
}

/// A row of that table: 1 byte of NULL bitmap, 4 of INT, 2 of length, the text.
fn row(key: u32, text: usize) -> Vec<u8> {
    let mut row = vec![0xfc];
    row.extend(key.to_le_bytes());
    row.extend(u16::try_from(text).unwrap().to_le_bytes());
    row.resize(row.len() + text, b'x');
    row
}

fn rows_event(event_type: u8, id: u8, flags: u16, rows: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![id, 0, 0, 0, 0, 0];
    body.extend(flags.to_le_bytes());
    if event_type >= WRITE_ROWS {
        body.extend([5, 0, 1, 2, 3]);
    }
    body.extend([2, 0x03]);
    if event_type == UPDATE_ROWS_V1 || event_type == UPDATE_ROWS {
        body.push(0x03);
    }
    body.extend(rows.concat());
    event(event_type, &body)
}

fn write(flags: u16, rows: &[Vec<u8>]) -> Vec<u8> {
    rows_event(WRITE_ROWS_V1, 7, flags, rows)
}

fn packer(limit: usize) -> RowsPacker {
    RowsPacker::new(limit, RowsLayout::default())
}

fn pack(packer: &mut RowsPacker, events: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out = vec![];
    for event in events {
        packer.push(event, &mut out).unwrap();
    }
    packer.flush(&mut out).unwrap();
    split(&out)
}

/// Splits the output by the sizes in its headers, which must fit exactly.
fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut events = vec![];
    while !bytes.is_empty() {
        let size = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
        assert_eq!(&bytes[13..17], [0; 4], "log_pos");
        events.push(bytes[..size].to_vec());
        bytes = &bytes[size..];
    }
    events
}

/// The event with the header the packer gives it.
fn plain(event: &[u8]) -> Vec<u8> {
    let mut event = event.to_vec();
    let size = size_field(event.len());
    event[9..13].copy_from_slice(&size.to_le_bytes());
    event[13..17].fill(0);
    event
}

fn plain_all(events: &[Vec<u8>]) -> Vec<Vec<u8>> {
    events.iter().map(|event| plain(event)).collect()
}

fn flags_of(event: &[u8]) -> u16 {
    u16::from_le_bytes([event[25], event[26]])
}

#[test]
fn a_thousand_rows_of_5000_bytes_give_the_counts_a_server_gives() {
    let rows: Vec<_> = (0..1_000).map(|key| row(key, 5_000)).collect();
    // At 8 KiB a server sends them one by one; at 64 KiB in thirteens.
    for source in [1, 13] {
        let mut events = vec![table_map(7)];
        for (at, chunk) in rows.chunks(source).enumerate() {
            events.push(write(u16::from((at + 1) * source >= 1_000), chunk));
        }
        for (kib, expected) in [(8, 1_000), (32, 167), (64, 77), (128, 39)] {
            let out = pack(&mut packer(kib << 10), &events);
            let counted = out.iter().filter(|event| event[4] == WRITE_ROWS_V1).count();
            assert_eq!(counted, expected, "{kib} KiB from events of {source}");
            let ends: Vec<_> = out.iter().skip(1).map(|event| flags_of(event)).collect();
            assert_eq!(ends.iter().rposition(|flags| *flags == 0), Some(expected - 2));
            assert_eq!(ends.last(), Some(&1));
        }
    }
}

#[test]
fn the_limit_counts_the_body() {
    let two = |text| [table_map(7), write(0, &[row(1, 100)]), write(1, &[row(2, text)])];
    // Body: 10 + 107 + 7 + text.
    let merged = pack(&mut packer(256), &two(256 - EMPTY_V1 - 107 - 7));
    assert_eq!(merged.len(), 2);
    assert_eq!(merged[1].len(), 19 + 256);
    assert_eq!(merged[1], plain(&write(1, &[row(1, 100), row(2, 132)])));
    let apart = pack(&mut packer(256), &two(256 - EMPTY_V1 - 107 - 7 + 1));
    assert_eq!(apart.len(), 3);
}

#[test]
fn a_large_event_is_split_and_a_large_row_stays_alone() {
    let rows = [row(1, 10), row(2, 300), row(3, 10), row(4, 20), row(5, 200)];
    let out = pack(&mut packer(256), &[table_map(7), write(1, &rows)]);
    let expected = [
        table_map(7),
        write(0, &rows[..1]),
        write(0, &rows[1..2]),
        write(0, &rows[2..4]),
        write(1, &rows[4..]),
    ];
    assert_eq!(out, plain_all(&expected));
}

#[test]
fn nothing_is_packed_past_a_statement_end() {
    let events = [
        table_map(7),
        write(0, &[row(1, 5)]),
        write(1, &[row(2, 5)]),
        table_map(7),
        write(1, &[row(3, 5)]),
        write(0, &[row(4, 5)]),
    ];
    let mut packer = packer(1_024);
    let out = pack(&mut packer, &events);
    assert_eq!(out[1], plain(&write(1, &[row(1, 5), row(2, 5)])));
    assert_eq!(out[2..], plain_all(&events[3..]));
    assert_eq!(packer.counters().without_table_map, 1, "a statement end forgets the table maps");
    assert_eq!(packer.counters().rows_events_in, 4);
    assert_eq!(packer.counters().rows_events_out, 3);
}

#[test]
fn what_differs_is_not_packed_together() {
    let base = write(0, &[row(1, 5)]);
    let changed = |at: usize, bits: u8| {
        let mut event = base.clone();
        event[at] ^= bits;
        event
    };
    // Type, server id, header flags, another rows flag.
    for (at, bits) in [(4, 23 ^ 25), (5, 2), (8, 1), (17, 0x20), (18, 0x80), (25, 2), (26, 1)] {
        let events = [table_map(7), base.clone(), changed(at, bits), base.clone()];
        assert_eq!(pack(&mut packer(1_024), &events), plain_all(&events), "byte {at}");
    }
    // Timestamp, size and log_pos do not matter; the first event's timestamp stays.
    for (at, bits) in [(0, 1), (3, 1), (9, 1), (14, 1)] {
        let out = pack(&mut packer(1_024), &[table_map(7), base.clone(), changed(at, bits)]);
        assert_eq!(out[1], plain(&write(0, &[row(1, 5), row(1, 5)])), "byte {at}");
    }
}

#[test]
fn another_tables_rows_and_other_events_keep_their_place() {
    let (one, two) = (table_map(7), table_map(8));
    let to = |id, key| rows_event(WRITE_ROWS_V1, id, 0, &[row(key, 5)]);
    let note = event(ANNOTATE, b"insert");
    let events = [one, two, to(7, 1), to(8, 2), to(8, 3), to(7, 4), note.clone(), to(7, 5), note];
    let mut expected = plain_all(&events);
    expected[3] = plain(&rows_event(WRITE_ROWS_V1, 8, 0, &[row(2, 5), row(3, 5)]));
    expected.remove(4);
    assert_eq!(pack(&mut packer(1_024), &events), expected);
}

#[test]
fn a_new_table_map_is_a_border_even_with_the_same_id() {
    let events = [table_map(7), write(0, &[row(1, 5)]), table_map(7), write(1, &[row(2, 5)])];
    assert_eq!(pack(&mut packer(1_024), &events), plain_all(&events));
}

#[test]
fn other_bitmaps_or_extra_data_are_a_border() {
    let base = rows_event(WRITE_ROWS, 7, 0, &[row(1, 5)]);
    let mut extra = base.clone();
    extra[30] ^= 1;
    let mut bitmap = base.clone();
    bitmap[33] = 0xff;
    for other in [extra, bitmap] {
        let events = [table_map(7), base.clone(), other];
        assert_eq!(pack(&mut packer(1_024), &events), plain_all(&events));
    }
}

#[test]
fn every_kind_is_packed() {
    for kind in [WRITE_ROWS_V1, DELETE_ROWS_V1, WRITE_ROWS, DELETE_ROWS] {
        let make = |flags, keys: &[u32]| {
            rows_event(kind, 7, flags, &keys.iter().map(|&key| row(key, 5)).collect::<Vec<_>>())
        };
        let out = pack(&mut packer(1_024), &[table_map(7), make(0, &[1, 2]), make(1, &[3])]);
        assert_eq!(out, plain_all(&[table_map(7), make(1, &[1, 2, 3])]), "type {kind}");
    }
    for kind in [UPDATE_ROWS_V1, UPDATE_ROWS] {
        let pair = |key| [row(key, 5), row(key, 6)].concat();
        let make = |flags, rows: &[Vec<u8>]| rows_event(kind, 7, flags, rows);
        let events = [table_map(7), make(0, &[pair(1)]), make(0, &[pair(2)]), make(1, &[pair(3)])];
        let out = pack(&mut packer(1_024), &events);
        assert_eq!(out, plain_all(&[table_map(7), make(1, &[pair(1), pair(2), pair(3)])]));
    }
}

#[test]
fn an_update_is_never_cut_between_its_images() {
    let pair = |key| [row(key, 90), row(key, 90)].concat();
    let make = |flags, rows: &[Vec<u8>]| rows_event(UPDATE_ROWS_V1, 7, flags, rows);
    let events = [table_map(7), make(1, &[pair(1), pair(2)])];
    let out = pack(&mut packer(300), &events);
    assert_eq!(out, plain_all(&[table_map(7), make(0, &[pair(1)]), make(1, &[pair(2)])]));
}

#[test]
fn unknown_types_pass_and_are_reported_once() {
    let mut map = table_map(7);
    map[19 + 8 + 6 + 1] = 7;
    let events = [map, write(0, &[row(1, 5)]), write(0, &[row(2, 500)]), write(1, &[row(3, 500)])];
    let mut packer = packer(256);
    for _ in 0..2 {
        assert_eq!(pack(&mut packer, &events), plain_all(&events));
    }
    assert_eq!(packer.counters().unknown_type, 6);
    let reason = UnpackedReason::UnknownType { column: 0, type_code: 7 };
    assert_eq!(packer.take_unpacked(), [Unpacked { table: "d.t".into(), reason }]);
    assert_eq!(packer.take_unpacked(), []);
}

#[test]
fn rows_that_do_not_parse_pass_and_end_the_run() {
    let mut broken = write(0, &[row(2, 5)]);
    broken.push(0);
    let events = [
        table_map(7),
        write(0, &[row(1, 5)]),
        broken,
        write(0, &[row(3, 5)]),
        write(1, &[row(4, 5)]),
    ];
    let mut packer = packer(1_024);
    let out = pack(&mut packer, &events);
    assert_eq!(out[..3], plain_all(&events[..3]));
    assert_eq!(out[3], plain(&write(1, &[row(3, 5), row(4, 5)])));
    assert_eq!(packer.counters().malformed, 1);
    let reason = UnpackedReason::MalformedRows;
    assert_eq!(packer.take_unpacked(), [Unpacked { table: "d.t".into(), reason }]);
}

#[test]
fn a_large_event_that_breaks_late_is_not_cut() {
    let mut event = write(1, &(0..100).map(|key| row(key, 50)).collect::<Vec<_>>());
    event.truncate(event.len() - 1);
    let events = [table_map(7), write(0, &[row(1, 5)]), event];
    assert_eq!(pack(&mut packer(256), &events), plain_all(&events));
}

#[test]
fn events_without_rows_bytes_pass() {
    let events = [
        table_map(7),
        write(0, &[row(1, 5)]),
        write(0, &[]),
        write(0, &[row(2, 5)]),
        write(1, &[]),
    ];
    let mut packer = packer(1_024);
    assert_eq!(pack(&mut packer, &events), plain_all(&events));
    assert_eq!(packer.counters().malformed, 0);
}

#[test]
fn compressed_and_partial_rows_keep_their_bytes_and_end_statements() {
    for kind in [166, 167, 168, PARTIAL_UPDATE_ROWS] {
        let end = rows_event(kind, 7, 1, &[row(2, 500)]);
        let events = [table_map(7), write(0, &[row(1, 5)]), end, write(0, &[row(3, 500)])];
        let mut packer = packer(256);
        assert_eq!(pack(&mut packer, &events), plain_all(&events));
        assert_eq!(packer.counters().without_table_map, 1);
    }
}

#[test]
fn table_ids_of_four_bytes() {
    let mut lengths = [0; 27];
    (lengths[18], lengths[22], lengths[23], lengths[24]) = (6, 6, 6, 6);
    let layout = RowsLayout::from_post_header_lengths(&lengths);
    let shorter = |mut event: Vec<u8>| {
        event.drain(23..25);
        event
    };
    let events = [table_map(7), write(0, &[row(1, 5)]), write(1, &[row(2, 5)])].map(shorter);
    let out = pack(&mut RowsPacker::new(1_024, layout), &events);
    let expected = shorter(write(1, &[row(1, 5), row(2, 5)]));
    assert_eq!(out, plain_all(&[events[0].clone(), expected]));
}

#[test]
fn rows_events_with_other_post_headers_pass() {
    let layout = RowsLayout::from_post_header_lengths(&[9; 171]);
    let events = [table_map(7), write(0, &[row(1, 5)]), write(1, &[row(2, 5)])];
    assert_eq!(pack(&mut RowsPacker::new(1_024, layout), &events), plain_all(&events));
}

#[test]
fn a_small_statement_is_passed_on_without_opening_an_event() {
    let mut packer = packer(1_024);
    let mut out = vec![];
    packer.push(&table_map(7), &mut out).unwrap();
    packer.push(&write(1, &[row(1, 5)]), &mut out).unwrap();
    assert!(!packer.is_open());
    assert_eq!(split(&out), plain_all(&[table_map(7), write(1, &[row(1, 5)])]));
}

#[test]
fn reset_forgets_the_open_event() {
    let mut packer = packer(1_024);
    let mut out = vec![];
    packer.push(&table_map(7), &mut out).unwrap();
    packer.push(&write(0, &[row(1, 5)]), &mut out).unwrap();
    assert!(packer.is_open());
    packer.reset();
    let events = [table_map(7), write(1, &[row(2, 5)])];
    assert_eq!(pack(&mut packer, &events), plain_all(&events));
}

#[test]
fn an_event_shorter_than_its_header_is_refused() {
    let mut out = vec![];
    let refused = packer(1_024).push(&[0; 18], &mut out);
    assert_eq!(refused, Err(PackError::TooShort(18)));
    assert!(out.is_empty());
}

#[test]
fn limits_are_brought_into_bounds() {
    let events = [table_map(7), write(0, &[row(1, 50)]), write(1, &[row(2, 50)])];
    assert_eq!(pack(&mut packer(0), &events).len(), 2, "at 256 bytes both rows fit");
    assert_eq!(packer(usize::MAX).limit, MAX_EVENT_SIZE);
}
