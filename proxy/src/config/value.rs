//! Readers of values: each takes a TOML value and its bounds, and answers `None` for anything else.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use toml::de::DeValue;

/// A whole number within bounds.
pub(super) fn integer<T>(value: &DeValue<'_>, bounds: RangeInclusive<T>) -> Option<T>
where
    T: TryFrom<i64> + PartialOrd,
{
    let DeValue::Integer(integer) = value else {
        return None;
    };
    let number = i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()?;
    T::try_from(number).ok().filter(|number| bounds.contains(number))
}

/// Text that is not empty.
pub(super) fn text(value: &DeValue<'_>) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// `true` or `false`.
pub(super) fn boolean(value: &DeValue<'_>) -> Option<bool> {
    value.as_bool()
}

/// One of some names.
pub(super) fn one_of<T: Copy>(value: &DeValue<'_>, names: &[(&str, T)]) -> Option<T> {
    let text = value.as_str()?;
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

/// A list whose every item reads.
pub(super) fn list<T>(
    value: &DeValue<'_>,
    item: impl Fn(&DeValue<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    value.as_array()?.iter().map(|value| item(value.get_ref())).collect()
}

/// An address to listen on.
pub(super) fn socket_address(value: &DeValue<'_>) -> Option<SocketAddr> {
    value.as_str()?.parse().ok()
}

/// A size in bytes: a number, or text with a unit of KiB, MiB, GiB, or K, M, G as MariaDB writes them.
pub(super) fn size(value: &DeValue<'_>, bounds: RangeInclusive<u64>) -> Option<u64> {
    let bytes = match value {
        DeValue::String(text) => size_from_text(text)?,
        other => integer(other, 0..=u64::MAX)?,
    };
    Some(bytes).filter(|bytes| bounds.contains(bytes))
}

fn size_from_text(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.trim_start() {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of(text: &str) -> Option<u64> {
        size(DeValue::parse(text).unwrap().get_ref(), 0..=u64::MAX)
    }

    #[test]
    fn sizes_take_the_units_of_both_worlds() {
        assert_eq!(size_of("4096"), Some(4096));
        assert_eq!(size_of("\"4096\""), Some(4096));
        assert_eq!(size_of("\"64KiB\""), Some(65_536));
        assert_eq!(size_of("\"64 KiB\""), Some(65_536));
        assert_eq!(size_of("\"8M\""), Some(8 << 20));
        assert_eq!(size_of("\"1g\""), Some(1 << 30));
    }

    #[test]
    fn sizes_refuse_what_is_ambiguous_or_too_large() {
        for text in
            ["\"1KB\"", "\"1.5G\"", "\"-1\"", "-1", "\"\"", "\"G\"", "\"99999999999999G\"", "true"]
        {
            assert_eq!(size_of(text), None, "{text}");
        }
    }

    #[test]
    fn integers_read_every_notation_of_toml() {
        for text in ["255", "0xff", "0b1111_1111", "+255"] {
            let value = DeValue::parse(text).unwrap();
            assert_eq!(integer(value.get_ref(), 1..=u32::MAX), Some(255), "{text}");
        }
    }
}
