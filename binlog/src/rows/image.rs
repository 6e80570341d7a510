//! Walking rows: where each one ends, without decoding a value.

use super::bytes::le_number;
use super::width::Width;

/// How rows of one table with one set of present columns are laid out.
#[derive(Debug, Default)]
pub struct RowShape {
    /// The bitmaps this was built for, to build it once for a run of events.
    built_for: Vec<u8>,
    before: Image,
    after: Option<Image>,
}

/// Where rows are to be cut, and the room the first of them has.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of a body without rows.
    pub empty: usize,
    /// Bytes of the body the first row would be appended to.
    pub used: usize,
    /// The most bytes a body has, unless it has one row only.
    pub limit: usize,
}

impl RowShape {
    /// Builds the shape for these bitmaps, unless it was built for the same before.
    pub fn build(&mut self, widths: &[Width], present: &[u8], after: Option<&[u8]>) {
        if self.is_built_for(present, after) {
            return;
        }
        self.built_for.clear();
        self.built_for.extend_from_slice(present);
        self.built_for.extend_from_slice(after.unwrap_or_default());
        self.before.build(widths, present);
        match after {
            Some(after) => self.after.get_or_insert_default().build(widths, after),
            None => self.after = None,
        }
    }

    /// Forgets what it was built for; called when the table's columns may have changed.
    pub fn forget(&mut self) {
        self.built_for.clear();
    }

    fn is_built_for(&self, present: &[u8], after: Option<&[u8]>) -> bool {
        let (built_present, built_after) =
            self.built_for.split_at_checked(present.len()).unwrap_or_default();
        !self.built_for.is_empty()
            && self.after.is_some() == after.is_some()
            && built_present == present
            && built_after == after.unwrap_or_default()
    }

    /// Finds every offset in `rows` where a new event has to start so that no event gets larger than the
    /// limit and each has as many rows as fit. `None` where the rows do not end exactly with the bytes.
    pub fn cuts(&self, rows: &[u8], room: Room, cuts: &mut Vec<usize>) -> Option<()> {
        cuts.clear();
        if self.has_no_bytes() {
            return None;
        }
        let mut rest = rows;
        let mut used = room.used;
        while !rest.is_empty() {
            let next = self.skip_row(rest)?;
            let row_len = rest.len() - next.len();
            if used + row_len > room.limit && used > room.empty {
                cuts.push(rows.len() - rest.len());
                used = room.empty;
            }
            used += row_len;
            rest = next;
        }
        Some(())
    }

    /// A row without any column takes no bytes: how many there are cannot be told.
    fn has_no_bytes(&self) -> bool {
        self.before.null_bytes == 0 && self.after.as_ref().is_none_or(|after| after.null_bytes == 0)
    }

    #[inline]
    fn skip_row<'a>(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        let rest = self.before.skip(rest)?;
        match &self.after {
            Some(after) => after.skip(rest),
            None => Some(rest),
        }
    }
}

/// One row image: a bitmap of NULLs over the present columns, then the values that are not NULL.
#[derive(Debug, Default)]
struct Image {
    null_bytes: usize,
    /// The bits of the bitmap's last byte that stand for columns.
    last_null_bits: u8,
    /// The present columns, for rows with NULLs.
    widths: Vec<Width>,
    /// The same for rows without NULLs: fixed widths in a row are one step.
    steps: Vec<Step>,
}

/// Skip this many bytes, then a value behind a length of `prefix` bytes (0: no such value).
#[derive(Debug, Default, Clone, Copy)]
struct Step {
    fixed: u32,
    prefix: u8,
}

impl Image {
    fn build(&mut self, widths: &[Width], present: &[u8]) {
        self.widths.clear();
        self.steps.clear();
        let mut step = Step::default();
        for (_, &width) in widths.iter().enumerate().filter(|&(column, _)| bit(present, column)) {
            self.widths.push(width);
            match width {
                Width::Fixed(bytes) => step.fixed += u32::from(bytes),
                Width::Prefixed(prefix) => {
                    step.prefix = prefix;
                    self.steps.push(std::mem::take(&mut step));
                }
            }
        }
        if step.fixed > 0 {
            self.steps.push(step);
        }
        self.null_bytes = self.widths.len().div_ceil(8);
        self.last_null_bits = 0xff >> (self.null_bytes * 8 - self.widths.len());
    }

    #[inline]
    fn skip<'a>(&self, image: &'a [u8]) -> Option<&'a [u8]> {
        let (nulls, values) = image.split_at_checked(self.null_bytes)?;
        if self.has_nulls(nulls) {
            return self.skip_not_null(nulls, values);
        }
        let mut rest = values;
        for step in &self.steps {
            rest = skip_value(rest.get(step.fixed as usize..)?, step.prefix)?;
        }
        Some(rest)
    }

    #[inline]
    fn has_nulls(&self, nulls: &[u8]) -> bool {
        let Some((last, others)) = nulls.split_last() else { return false };
        last & self.last_null_bits != 0 || others.iter().any(|&byte| byte != 0)
    }

    fn skip_not_null<'a>(&self, nulls: &[u8], values: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = values;
        for (widths, &nulls) in self.widths.chunks(8).zip(nulls) {
            for (at, &width) in widths.iter().enumerate() {
                if nulls >> at & 1 == 1 {
                    continue;
                }
                rest = match width {
                    Width::Fixed(bytes) => rest.get(usize::from(bytes)..)?,
                    Width::Prefixed(prefix) => skip_value(rest, prefix)?,
                };
            }
        }
        Some(rest)
    }
}

/// Skips a length of `prefix` bytes and as many bytes as it says.
#[inline]
fn skip_value(bytes: &[u8], prefix: u8) -> Option<&[u8]> {
    match prefix {
        0 => Some(bytes),
        1 => {
            let (&len, rest) = bytes.split_first()?;
            rest.get(usize::from(len)..)
        }
        2 => {
            let (&len, rest) = bytes.split_first_chunk()?;
            rest.get(usize::from(u16::from_le_bytes(len))..)
        }
        more => {
            let (len, rest) = bytes.split_at_checked(usize::from(more))?;
            rest.get(usize::try_from(le_number(len)).ok()?..)
        }
    }
}

fn bit(bitmap: &[u8], at: usize) -> bool {
    bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

#[cfg(test)]
mod tests;
