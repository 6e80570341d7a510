//! Table maps of the statement at hand, read no further than the widths of the columns, and only when needed.

use super::HEADER_LEN;
use super::bytes::{Bytes, le_number};
use super::head::RowsHead;
use super::image::RowShape;
use super::notice::UnpackedReason;
use super::width::{NoWidth, Width, column_width};

/// Table maps kept for one statement. More would be no statement of a real server; rows of those that
/// did not find a place are left as they came.
const MAX_ACTIVE: usize = 4_096;

/// Buffers kept from one statement to the next.
const KEPT: usize = 64;

/// The table maps that are active: those since the last statement end.
#[derive(Default)]
pub struct TableMaps {
    /// The first `active` are; the others keep their buffers, and what was read from the same bytes.
    maps: Vec<TableMap>,
    active: usize,
}

impl TableMaps {
    /// Remembers a table map event without reading more than its table id.
    pub fn add(&mut self, event: &[u8], id_len: usize) {
        let mut body = Bytes(event.get(HEADER_LEN..).unwrap_or_default());
        let Some(id) = body.take(id_len).map(le_number) else { return };
        let Some(map) = self.place_for(id) else { return };
        if map.id != id || map.raw != body.0 {
            map.id = id;
            map.raw.clear();
            map.raw.extend_from_slice(body.0);
            map.state = State::Unread;
        }
    }

    fn place_for(&mut self, id: u64) -> Option<&mut TableMap> {
        let at = match self.find(id) {
            Some(at) => at,
            None if self.active == MAX_ACTIVE => return None,
            None => {
                self.active += 1;
                self.active - 1
            }
        };
        if at == self.maps.len() {
            self.maps.push(TableMap::default());
        }
        self.maps.get_mut(at)
    }

    /// The place of the active table map with this id.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.maps.iter().take(self.active).position(|map| map.id == id)
    }

    pub fn get_mut(&mut self, place: usize) -> Option<&mut TableMap> {
        self.maps.get_mut(place)
    }

    /// The end of the statement.
    pub fn clear(&mut self) {
        self.active = 0;
        self.maps.truncate(KEPT);
    }
}

/// One table map.
#[derive(Default)]
pub struct TableMap {
    id: u64,
    /// The event behind the table id.
    raw: Vec<u8>,
    state: State,
    widths: Vec<Width>,
    shape: RowShape,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Unread,
    Known,
    Unpackable(UnpackedReason),
}

impl TableMap {
    /// The shape of rows with the columns `head` says, or why it is not known.
    pub fn shape_for(
        &mut self,
        head: &RowsHead<'_>,
        old_temporals_are_fixed: bool,
    ) -> Result<(), UnpackedReason> {
        if matches!(self.state, State::Unread) {
            self.read(old_temporals_are_fixed);
        }
        if let State::Unpackable(reason) = self.state {
            return Err(reason);
        }
        if head.columns != self.widths.len() {
            return Err(UnpackedReason::MalformedRows);
        }
        self.shape.build(&self.widths, head.present, head.present_after);
        Ok(())
    }

    /// The shape [`shape_for`](Self::shape_for) built last.
    pub fn shape(&self) -> &RowShape {
        &self.shape
    }

    /// `database.table` as far as it can be read.
    pub fn name(&self) -> String {
        let mut bytes = Bytes(&self.raw);
        bytes.u16();
        let [database, table] = [bytes.name(), bytes.name()]
            .map(|name| String::from_utf8_lossy(name.unwrap_or_default()));
        format!("{database}.{table}")
    }

    fn read(&mut self, old_temporals_are_fixed: bool) {
        self.shape.forget();
        self.state = match read_widths(&self.raw, old_temporals_are_fixed, &mut self.widths) {
            Ok(()) => State::Known,
            Err(reason) => State::Unpackable(reason),
        };
    }
}

/// Reads a table map from its flags on; what comes behind the column metadata is not looked at.
fn read_widths(
    raw: &[u8],
    old_temporals_are_fixed: bool,
    widths: &mut Vec<Width>,
) -> Result<(), UnpackedReason> {
    let (types, mut metadata) = types_and_metadata(raw).ok_or(UnpackedReason::MalformedTableMap)?;
    widths.clear();
    for (column, &type_code) in types.iter().enumerate() {
        match column_width(type_code, &mut metadata, old_temporals_are_fixed) {
            Ok(width) => widths.push(width),
            Err(NoWidth::Unknown) => {
                return Err(UnpackedReason::UnknownType { column, type_code });
            }
            Err(NoWidth::Truncated) => return Err(UnpackedReason::MalformedTableMap),
        }
    }
    if metadata.0.is_empty() { Ok(()) } else { Err(UnpackedReason::MalformedTableMap) }
}

fn types_and_metadata(raw: &[u8]) -> Option<(&[u8], Bytes<'_>)> {
    let mut bytes = Bytes(raw);
    bytes.u16()?;
    bytes.name()?;
    bytes.name()?;
    let columns = bytes.packed()?;
    let types = bytes.take(columns)?;
    let metadata_len = bytes.packed()?;
    Some((types, Bytes(bytes.take(metadata_len)?)))
}
