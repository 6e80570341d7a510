//! Row ends of hand-made images.

use super::Width::{Fixed, Prefixed};
use super::*;

fn shape(widths: &[Width], present: &[u8], after: Option<&[u8]>) -> RowShape {
    let mut shape = RowShape::default();
    shape.build(widths, present, after);
    shape
}

/// Ends of the rows, or `None` where they do not end with the bytes.
fn ends(shape: &RowShape, rows: &[u8]) -> Option<Vec<usize>> {
    let mut cuts = vec![];
    shape.cuts(rows, Room { empty: 10, used: 10, limit: 10 }, &mut cuts)?;
    cuts.push(rows.len());
    Some(cuts)
}

#[test]
fn fixed_and_prefixed_columns() {
    let shape = shape(&[Fixed(4), Prefixed(1), Fixed(2), Prefixed(2), Fixed(1)], &[0x1f], None);
    let row = [0xe0, 1, 2, 3, 4, 2, 9, 9, 5, 5, 1, 0, 7, 8];
    assert_eq!(ends(&shape, &[row, row].concat()), Some(vec![14, 28]));
    assert_eq!(ends(&shape, &[&row[..], &row[..13]].concat()), None);
}

#[test]
fn null_columns_take_no_bytes() {
    let shape = shape(&[Fixed(4), Prefixed(1), Fixed(2)], &[0x07], None);
    let rows = [0xf9, 1, 7, 1, 1, 0xff, 0xfa, 1, 2, 3, 4, 5, 6];
    assert_eq!(ends(&shape, &rows), Some(vec![5, 6, 13]));
}

#[test]
fn unused_bits_of_the_null_bitmap_do_not_count() {
    let shape = shape(&[Fixed(1)], &[0x01], None);
    for nulls in [0x00, 0xfe, 0x80] {
        assert_eq!(ends(&shape, &[nulls, 5]), Some(vec![2]));
    }
}

#[test]
fn null_bitmap_counts_present_columns_only() {
    // 17 columns, of which the last and the first are present: one byte of bitmap.
    let shape = shape(&[Fixed(3); 17], &[0x01, 0x00, 0x01], None);
    assert_eq!(ends(&shape, &[0xfc, 1, 1, 1, 2, 2, 2]), Some(vec![7]));
    assert_eq!(ends(&shape, &[0xfe, 1, 1, 1]), Some(vec![4]));
    assert_eq!(ends(&shape, &[0xfc, 1, 1, 1]), None, "neither is NULL");
    assert_eq!(ends(&shape, &[0xfd, 1, 1, 1]), Some(vec![4]));
    assert_eq!(ends(&shape, &[0xff]), Some(vec![1]));
}

#[test]
fn updates_have_two_images() {
    let widths = [Fixed(1), Fixed(2), Prefixed(1)];
    let shape = shape(&widths, &[0x01], Some(&[0x06]));
    let row = [0xfe, 1, 0xfc, 2, 2, 1, 3];
    assert_eq!(ends(&shape, &[row, row].concat()), Some(vec![7, 14]));
    assert_eq!(ends(&shape, &row[..2]), None);
}

#[test]
fn lengths_of_three_and_four_bytes() {
    let shape = shape(&[Prefixed(3), Prefixed(4)], &[0x03], None);
    let mut row = vec![0xfc, 0, 0, 1];
    row.resize(row.len() + 65_536, 1);
    row.extend([1, 0, 0, 0, 9]);
    assert_eq!(ends(&shape, &row), Some(vec![row.len()]));
    row.truncate(4);
    row.extend([0xff; 9]);
    assert_eq!(ends(&shape, &row), None);
}

#[test]
fn four_thousand_columns() {
    let widths = [Fixed(1); 4_096];
    let shape = shape(&widths, &[0xff; 512], None);
    let mut row = vec![0; 512 + 4_096];
    assert_eq!(ends(&shape, &row), Some(vec![row.len()]));
    row[511] = 0x80;
    row.pop();
    assert_eq!(ends(&shape, &row), Some(vec![row.len()]));
    assert_eq!(ends(&shape, &[0xff; 512 * 3]), Some(vec![512, 1_024, 1_536]));
}

#[test]
fn rows_without_columns_cannot_be_told_apart() {
    assert_eq!(ends(&shape(&[Fixed(1)], &[0x00], None), &[0]), None);
    assert_eq!(ends(&shape(&[Fixed(1)], &[0x00], Some(&[0x00])), &[0]), None);
    assert_eq!(ends(&shape(&[Fixed(1)], &[0x01], Some(&[0x00])), &[0, 1]), Some(vec![2]));
}

#[test]
fn a_shape_is_built_again_for_other_bitmaps() {
    let mut shape = shape(&[Fixed(1), Fixed(2)], &[0x01], None);
    shape.build(&[Fixed(1), Fixed(2)], &[0x02], None);
    assert_eq!(ends(&shape, &[0xfe, 1, 1]), Some(vec![3]));
    shape.build(&[Fixed(1), Fixed(2)], &[0x02], Some(&[0x01]));
    assert_eq!(ends(&shape, &[0xfe, 1, 1, 0xfe, 2]), Some(vec![5]));
    shape.forget();
    shape.build(&[Fixed(1), Fixed(4)], &[0x02], Some(&[0x01]));
    assert_eq!(ends(&shape, &[0xfe, 1, 1, 1, 1, 0xfe, 2]), Some(vec![7]));
}
