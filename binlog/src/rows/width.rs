//! How many bytes a value of each column type takes in a row image, told from the table map alone.

use super::bytes::Bytes;

/// The width of a column's values that are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Always this many bytes.
    Fixed(u8),
    /// A little-endian length of this many bytes (1 to 4), then that many bytes.
    Prefixed(u8),
}

/// Why there is no width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWidth {
    /// The type, or its metadata, is not known here.
    Unknown,
    /// The metadata block ends early.
    Truncated,
}

/// Takes one column's metadata and tells the width of its values.
///
/// What a server logs for each type was observed on MariaDB 10.11 and 11.8: UUID, INET4, INET6 and
/// CHAR(0) are STRING, JSON is BLOB, VECTOR is VARCHAR, and a STRING's values always have a length in
/// front. Not known, hence never packed: old DECIMAL (0), VAR_STRING (253, only from tables made
/// before MySQL 5.0.3, whose metadata no server here writes), typed arrays (20), and anything newer.
pub fn column_width(
    type_code: u8,
    metadata: &mut Bytes<'_>,
    old_temporals_are_fixed: bool,
) -> Result<Width, NoWidth> {
    use Width::{Fixed, Prefixed};
    let width = match type_code {
        1 | 13 => Fixed(1),
        2 => Fixed(2),
        9 | 10 | 14 => Fixed(3),
        3 => Fixed(4),
        8 => Fixed(8),
        6 => Fixed(0),
        4 | 5 => return float(type_code, byte(metadata)?),
        7 if old_temporals_are_fixed => Fixed(4),
        11 if old_temporals_are_fixed => Fixed(3),
        12 if old_temporals_are_fixed => Fixed(8),
        17 => return with_fraction(4, byte(metadata)?),
        18 => return with_fraction(5, byte(metadata)?),
        19 => return with_fraction(3, byte(metadata)?),
        15 | 141 => Prefixed(prefix_of(metadata.u16().ok_or(NoWidth::Truncated)?)),
        16 => return bit(byte(metadata)?, byte(metadata)?),
        246 => return decimal(byte(metadata)?, byte(metadata)?),
        247 | 248 | 254 => return string(type_code, byte(metadata)?, byte(metadata)?),
        140 | 242 | 245 | 249..=252 | 255 => return blob(byte(metadata)?),
        _ => return Err(NoWidth::Unknown),
    };
    Ok(width)
}

fn byte(metadata: &mut Bytes<'_>) -> Result<u8, NoWidth> {
    metadata.u8().ok_or(NoWidth::Truncated)
}

fn float(type_code: u8, bytes: u8) -> Result<Width, NoWidth> {
    match (type_code, bytes) {
        (4, 4) | (5, 8) => Ok(Width::Fixed(bytes)),
        _ => Err(NoWidth::Unknown),
    }
}

/// Two decimals of a second take one byte.
fn with_fraction(whole: u8, decimals: u8) -> Result<Width, NoWidth> {
    match decimals {
        0..=6 => Ok(Width::Fixed(whole + decimals.div_ceil(2))),
        _ => Err(NoWidth::Unknown),
    }
}

fn prefix_of(max_len: u16) -> u8 {
    if max_len > 255 { 2 } else { 1 }
}

fn bit(bits: u8, bytes: u8) -> Result<Width, NoWidth> {
    let total = u32::from(bytes) * 8 + u32::from(bits);
    if bits > 7 || !(1..=64).contains(&total) {
        return Err(NoWidth::Unknown);
    }
    Ok(Width::Fixed(bytes + u8::from(bits > 0)))
}

/// Nine digits take four bytes on either side of the point, a rest of n digits `REST[n]`.
fn decimal(precision: u8, scale: u8) -> Result<Width, NoWidth> {
    const REST: [u8; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let whole = precision.checked_sub(scale).ok_or(NoWidth::Unknown)?;
    if precision == 0 || precision > 65 {
        return Err(NoWidth::Unknown);
    }
    let bytes = |digits: u8| digits / 9 * 4 + REST[usize::from(digits % 9)];
    Ok(Width::Fixed(bytes(whole) + bytes(scale)))
}

/// STRING hides ENUM and SET in its first metadata byte, and two bits of a length over 255.
fn string(type_code: u8, first: u8, second: u8) -> Result<Width, NoWidth> {
    let real_type = first | 0x30;
    let max_len = u16::from(first & 0x30 ^ 0x30) << 4 | u16::from(second);
    match (type_code, real_type, max_len) {
        (254 | 247, 247, 1..=2) => Ok(Width::Fixed(second)),
        (254 | 248, 248, 1..=4 | 8) => Ok(Width::Fixed(second)),
        (254, 254, _) => Ok(Width::Prefixed(prefix_of(max_len))),
        _ => Err(NoWidth::Unknown),
    }
}

fn blob(length_bytes: u8) -> Result<Width, NoWidth> {
    match length_bytes {
        1..=4 => Ok(Width::Prefixed(length_bytes)),
        _ => Err(NoWidth::Unknown),
    }
}

#[cfg(test)]
mod tests;
