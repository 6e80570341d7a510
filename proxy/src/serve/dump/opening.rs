//! How a dump opens: where reading starts, and what the client is told before the first event.

use std::sync::Arc;

use spillway_binlog::Log;
use spillway_binlog::event::header::FLAG_IN_USE;
use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, EventType, control};
use spillway_binlog::gtid::mariadb::{Gtid, GtidState};
use spillway_binlog::reader::{AttachError, Cursor, ReadError, Run, Sought};

use super::error::{Coordinates, DumpError};
use super::filter::{Filter, holds};
use super::request::{DumpRequest, GtidStart, Start};

/// Where every file's first event starts: behind the magic.
pub(super) const FIRST_POSITION: u64 = 4;
/// Where the time of the server's start stands in a format description.
const CREATED: std::ops::Range<usize> = EventHeader::LEN + 52..EventHeader::LEN + 56;

/// A dump about to start.
pub(super) struct Opening {
    /// Behind the format description; at the client's position if that lies further on.
    pub cursor: Cursor,
    pub filter: Filter,
    /// The position of the artificial Rotate.
    pub position: u64,
    /// The format description as the client gets it.
    pub format_description: Vec<u8>,
}

/// Finds where to start. Reads and checks the file up to there, so it may take a while.
///
/// # Errors
/// Any [`DumpError`] that can be told before the first event.
pub(super) fn open(log: &Arc<Log>, request: &DumpRequest) -> Result<Opening, DumpError> {
    let state = log.gtid_state();
    let (file, name, position) = match &request.start {
        Start::Gtid(start) => (attach(log, &state, start)?, String::new(), FIRST_POSITION),
        Start::Position { file, position } => find(log, file, *position)?,
    };
    let mut cursor =
        log.cursor(file, FIRST_POSITION).map_err(|error| read(error, &name, position))?;
    let raw = take_format_description(&mut cursor)?;
    let sought = seek(log, file, request).map_err(|error| read(error, &name, position))?;
    let (filter, position) = match sought {
        Some(Sought { cursor: there, state: known }) => {
            let position = there.position();
            cursor = there;
            (Filter::resuming(request, &state, &known.list()), position)
        }
        None => (Filter::new(request, &state, cursor.gtid_list()), position),
    };
    let further_on = position > FIRST_POSITION;
    if further_on && cursor.position() != position {
        cursor = log.cursor(file, position).map_err(|error| read(error, &name, position))?;
    }
    let keep_created = !further_on && filter.is_at_start();
    let format_description = outgoing_format_description(raw, keep_created, further_on);
    Ok(Opening { cursor, filter, position, format_description })
}

/// A place further on in the file than its beginning, as MariaDB 11.8 finds one by its GTID index. With an UNTIL position all of the
/// file is looked at: what lies between it and the replica's own position decides.
fn seek(log: &Log, file: u64, request: &DumpRequest) -> Result<Option<Sought>, ReadError> {
    match &request.start {
        Start::Gtid(start) if start.until.is_none() => log.seek_gtid(file, &start.state),
        Start::Gtid(_) | Start::Position { .. } => Ok(None),
    }
}

/// The file the client named (none: the first), its name as told in errors, and the position.
fn find(log: &Log, name: &str, position: u64) -> Result<(u64, String, u64), DumpError> {
    let file =
        if name.is_empty() { log.files().into_iter().next() } else { log.file_by_name(name) };
    let file = file.ok_or(DumpError::NoSuchFile)?;
    if position < FIRST_POSITION || position > file.size {
        return Err(DumpError::ImpossiblePosition { file: name.to_owned(), position });
    }
    Ok((file.number, file.name, position))
}

fn attach(log: &Log, state: &GtidState, start: &GtidStart) -> Result<u64, DumpError> {
    let wanted: Vec<_> = start.state.iter().map(|gtid| reachable(state, start, *gtid)).collect();
    log.find_attach(&wanted).map_err(|error| match error {
        AttachError::Purged => DumpError::Purged,
        AttachError::Ahead(gtid) => ahead(state, gtid),
    })
}

/// The GTID itself, or the domain's latest where a position that the log has not reached is no error: the replica has it from
/// elsewhere, or stops before it.
fn reachable(state: &GtidState, start: &GtidStart, gtid: Gtid) -> Gtid {
    let Some(latest) = state.latest(gtid.domain).filter(|_| !holds(state, gtid)) else {
        return gtid;
    };
    let duplicates = start.ignore_duplicates && latest.sequence < gtid.sequence;
    let stops_before = start.until.as_ref().is_some_and(|until| {
        let until = until.iter().find(|until| until.domain == gtid.domain);
        until.is_none_or(|until| holds(state, *until))
    });
    if duplicates || stops_before { latest } else { gtid }
}

/// MariaDB's two sentences for a GTID that is not there.
pub(super) fn ahead(state: &GtidState, gtid: Gtid) -> DumpError {
    let latest = state.latest(gtid.domain);
    if latest.is_some_and(|latest| latest.sequence >= gtid.sequence) {
        return DumpError::Diverged(gtid);
    }
    DumpError::Ahead(gtid)
}

fn read(error: ReadError, file: &str, position: u64) -> DumpError {
    let coordinates = |file: String, byte| {
        Box::new(Coordinates {
            first_file: file.clone(),
            first_position: position,
            file,
            event: position,
            byte,
        })
    };
    match error {
        ReadError::NoSuchFile => DumpError::NoSuchFile,
        ReadError::BeyondEnd { .. } => {
            DumpError::ImpossiblePosition { file: file.to_owned(), position }
        }
        ReadError::InsideEvent { file, position } => {
            DumpError::InsideEvent(coordinates(file, position))
        }
        error @ (ReadError::Damaged { .. } | ReadError::Io { .. }) => DumpError::Read {
            error: Box::new(error),
            coordinates: coordinates(file.to_owned(), position),
        },
    }
}

/// The raw format description at the head of a file; the cursor, at its beginning, moves behind it.
pub(super) fn take_format_description(cursor: &mut Cursor) -> Result<Vec<u8>, DumpError> {
    let (file, position) = (cursor.file_name().to_owned(), cursor.position());
    let event = match cursor.next_run(1).map_err(|error| read(error, &file, position))? {
        Run::Events(run) => run.events().next(),
        Run::NextFile | Run::CaughtUp => None,
    };
    match event {
        Some((_, header, event)) if header.event_type == EventType::FORMAT_DESCRIPTION => {
            Ok(event.to_vec())
        }
        _ => Err(DumpError::NoFormatDescription(file)),
    }
}

/// A format description for the wire. Without `keep_created` a replica keeps its temporary tables: it has seen this server's
/// start before. `further_on` says that it stands before an event that does not follow it, so its end is no position.
pub(super) fn outgoing_format_description(
    mut event: Vec<u8>,
    keep_created: bool,
    further_on: bool,
) -> Vec<u8> {
    let Ok(mut header) = EventHeader::parse(&event) else { return event };
    header.flags &= !FLAG_IN_USE;
    if further_on {
        header.end_position = 0;
    }
    if let Some(head) = event.get_mut(..EventHeader::LEN) {
        head.copy_from_slice(&header.to_bytes());
    }
    if let Some(created) = event.get_mut(CREATED).filter(|_| !keep_created) {
        created.fill(0);
    }
    // A format description always ends with a valid CRC32, whatever it says of the others.
    ChecksumAlgorithm::Crc32.write(&mut event);
    event
}

/// The artificial Rotate that tells a file's name.
pub(super) fn rotate(
    server_id: u32,
    file: &str,
    position: u64,
    checksum: ChecksumAlgorithm,
) -> Vec<u8> {
    let header = control::artificial(EventType::ROTATE, server_id, 0);
    control::event(header, &control::rotate_body(position, file), checksum)
}
