//! Widths of every type at its edges, against widths worked out by hand or seen on a server.

use super::NoWidth::{Truncated, Unknown};
use super::Width::{Fixed, Prefixed};
use super::*;

fn width(type_code: u8, metadata: &[u8]) -> Result<Width, NoWidth> {
    width_at(type_code, metadata, false)
}

/// The width, having checked that exactly the metadata was taken.
fn width_at(type_code: u8, metadata: &[u8], fixed: bool) -> Result<Width, NoWidth> {
    let mut bytes = Bytes(metadata);
    let width = column_width(type_code, &mut bytes, fixed);
    if width.is_ok() {
        assert!(bytes.0.is_empty(), "type {type_code} left metadata");
    }
    width
}

#[test]
fn types_without_metadata() {
    let bytes = [(1, 1), (2, 2), (9, 3), (3, 4), (8, 8), (6, 0), (10, 3), (14, 3), (13, 1)];
    for (type_code, width_of_it) in bytes {
        assert_eq!(width(type_code, &[]), Ok(Fixed(width_of_it)), "type {type_code}");
    }
}

#[test]
fn float_and_double_say_their_own_width() {
    assert_eq!(width(4, &[4]), Ok(Fixed(4)));
    assert_eq!(width(5, &[8]), Ok(Fixed(8)));
    assert_eq!(width(4, &[8]), Err(Unknown));
    assert_eq!(width(5, &[4]), Err(Unknown));
    assert_eq!(width(5, &[]), Err(Truncated));
}

#[test]
fn old_temporals_have_a_width_only_where_they_never_had_fractions() {
    for (type_code, mysql) in [(7, 4), (11, 3), (12, 8)] {
        assert_eq!(width_at(type_code, &[], true), Ok(Fixed(mysql)));
        assert_eq!(width_at(type_code, &[], false), Err(Unknown));
    }
}

#[test]
fn new_temporals_grow_with_their_fraction() {
    for (decimals, extra) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)] {
        assert_eq!(width(17, &[decimals]), Ok(Fixed(4 + extra)));
        assert_eq!(width(18, &[decimals]), Ok(Fixed(5 + extra)));
        assert_eq!(width(19, &[decimals]), Ok(Fixed(3 + extra)));
    }
    assert_eq!(width(18, &[7]), Err(Unknown));
}

#[test]
fn varchar_has_two_length_bytes_above_255() {
    for type_code in [15, 141] {
        assert_eq!(width(type_code, &[0, 0]), Ok(Prefixed(1)));
        assert_eq!(width(type_code, &[255, 0]), Ok(Prefixed(1)));
        assert_eq!(width(type_code, &[0, 1]), Ok(Prefixed(2)));
        assert_eq!(width(type_code, &[255, 255]), Ok(Prefixed(2)));
        assert_eq!(width(type_code, &[255]), Err(Truncated));
    }
}

#[test]
fn every_bit_width() {
    for bits in 1..=64_u8 {
        let expected = bits.div_ceil(8);
        assert_eq!(width(16, &[bits % 8, bits / 8]), Ok(Fixed(expected)), "BIT({bits})");
    }
    assert_eq!(width(16, &[0, 0]), Err(Unknown));
    assert_eq!(width(16, &[8, 1]), Err(Unknown));
    assert_eq!(width(16, &[1, 8]), Err(Unknown));
}

#[test]
fn every_decimal() {
    // Bytes for 0 to 9 digits, from the format's description.
    let table = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let side = |digits: u8| {
        let (mut left, mut bytes) = (digits, 0);
        while left >= 9 {
            (left, bytes) = (left - 9, bytes + 4);
        }
        bytes + table[usize::from(left)]
    };
    for precision in 1..=65_u8 {
        for scale in 0..=precision {
            let expected = side(precision - scale) + side(scale);
            assert_eq!(width(246, &[precision, scale]), Ok(Fixed(expected)));
        }
    }
    assert_eq!(width(246, &[65, 38]), Ok(Fixed(12 + 17)));
    assert_eq!(width(246, &[65, 30]), Ok(Fixed(16 + 14)));
    assert_eq!(width(246, &[5, 6]), Err(Unknown));
    assert_eq!(width(246, &[66, 0]), Err(Unknown));
    assert_eq!(width(246, &[0, 0]), Err(Unknown));
}

#[test]
fn char_hides_two_bits_of_its_length() {
    // Seen: CHAR(10) fe 0a, CHAR(255) utf8mb4 (1,020 bytes) ce fc, CHAR(0) fe 00, UUID fe 10.
    assert_eq!(width(254, &[0xfe, 0x0a]), Ok(Prefixed(1)));
    assert_eq!(width(254, &[0xce, 0xfc]), Ok(Prefixed(2)));
    assert_eq!(width(254, &[0xfe, 0x00]), Ok(Prefixed(1)));
    assert_eq!(width(254, &[0xfe, 0xff]), Ok(Prefixed(1)));
    // 256 bytes: 0x100 >> 4 = 0x10 taken out of 0xfe.
    assert_eq!(width(254, &[0xee, 0x00]), Ok(Prefixed(2)));
    assert_eq!(width(254, &[0xde, 0x00]), Ok(Prefixed(2)));
    assert_eq!(width(254, &[0xfd, 0x00]), Err(Unknown));
    assert_eq!(width(254, &[0xfe]), Err(Truncated));
}

#[test]
fn enum_and_set_are_hidden_in_string() {
    assert_eq!(width(254, &[0xf7, 1]), Ok(Fixed(1)));
    assert_eq!(width(254, &[0xf7, 2]), Ok(Fixed(2)));
    assert_eq!(width(254, &[0xf7, 3]), Err(Unknown));
    for bytes in [1, 2, 3, 4, 8] {
        assert_eq!(width(254, &[0xf8, bytes]), Ok(Fixed(bytes)));
    }
    for bytes in [0, 5, 6, 7, 9] {
        assert_eq!(width(254, &[0xf8, bytes]), Err(Unknown));
    }
    assert_eq!(width(247, &[0xf7, 2]), Ok(Fixed(2)));
    assert_eq!(width(248, &[0xf8, 8]), Ok(Fixed(8)));
    assert_eq!(width(247, &[0xf8, 1]), Err(Unknown));
    assert_eq!(width(248, &[0xfe, 1]), Err(Unknown));
}

#[test]
fn blobs_say_their_length_bytes() {
    for type_code in [140, 242, 245, 249, 250, 251, 252, 255] {
        for bytes in 1..=4 {
            assert_eq!(width(type_code, &[bytes]), Ok(Prefixed(bytes)));
        }
        assert_eq!(width(type_code, &[0]), Err(Unknown));
        assert_eq!(width(type_code, &[5]), Err(Unknown));
    }
}

#[test]
fn all_other_types_are_unknown() {
    let known = [
        1, 2, 3, 4, 5, 6, 8, 9, 10, 13, 14, 15, 16, 17, 18, 19, 140, 141, 242, 245, 246, 247, 248,
        249, 250, 251, 252, 254, 255,
    ];
    for type_code in (0..=255).filter(|code| !known.contains(code)) {
        assert_eq!(width(type_code, &[1, 1, 1, 1]), Err(Unknown), "type {type_code}");
    }
}
