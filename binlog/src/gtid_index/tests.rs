//! Points and their bytes.

use super::*;
use crate::gtid::mariadb::parse_list;

fn sample() -> (Vec<Point>, Vec<u8>) {
    let mut draft = Draft::default();
    draft.pass("0-1-9".parse().unwrap(), 50);
    draft.pass("0-1-3".parse().unwrap(), 40);
    let first = Point { state: parse_list("0-1-3").unwrap(), mark: 7, ..draft.point(100) };
    draft = Draft::after(&first);
    draft.pass("2-7-1".parse().unwrap(), 45);
    let second = Point { state: parse_list("0-1-3,2-7-1").unwrap(), mark: 8, ..draft.point(300) };
    let mut bytes = format::head(99);
    bytes.extend(format::encode(&first, false));
    bytes.extend(format::encode(&second, true));
    (vec![first, second], bytes)
}

#[test]
fn points_are_read_as_they_were_written() {
    let (points, bytes) = sample();
    let index = format::decode(&bytes, 99).unwrap();
    assert_eq!(index.points, points);
    assert!(index.complete);
    assert_eq!(index.ends.last(), Some(&(bytes.len() as u64)));
    let spans = &points[0].spans;
    assert_eq!(spans, &[Span { domain: 0, server: 1, min: 3, max: 9 }]);
    assert!(spans[0].may_hold("0-1-5".parse().unwrap()));
    assert_eq!((points[1].transactions, points[1].latest), (3, 50));
    assert_eq!(points[1].last, Some(("2-7-1".parse().unwrap(), 45)));
    assert_eq!(format::decode(&bytes, 98), None);
}

#[test]
fn what_is_cut_or_flipped_counts_only_as_far_as_it_is_whole() {
    let (points, bytes) = sample();
    for len in 0..bytes.len() {
        match format::decode(&bytes[..len], 99) {
            None => assert!(len < format::HEAD_LEN),
            Some(index) => {
                assert!(!index.complete && points.starts_with(&index.points));
            }
        }
    }
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x80;
        if let Some(index) = format::decode(&bytes, 99) {
            assert!(points.starts_with(&index.points) && index.points.len() < 2, "{at}");
        }
    }
}

#[test]
fn a_count_beyond_the_record_is_no_allocation() {
    let (_, bytes) = sample();
    let mut record = bytes[format::HEAD_LEN..].to_vec();
    record[52..56].fill(0xff);
    let size = u32::from_le_bytes(record[..4].try_into().unwrap()) as usize;
    record.truncate(size - 4);
    record.extend(crc32fast::hash(&record).to_le_bytes());
    let index = format::decode(&[format::head(99), record].concat(), 99);
    assert_eq!(index, None);
}
