//! `binlog find`: where a transaction is. By the GTID index where a file has one; then about 1 MiB of the file is read.

use std::io::Write;

use spillway_binlog::event::EventType;
use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::fs::OsFileSystem;
use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::gtid_index::{self, Point};

use super::files::{BinlogFile, Target};
use super::{Out, Stop, time};
use crate::exit::Failure;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Gtid(Gtid),
    /// The first transaction at or after this time, Unix seconds.
    Time(i64),
}

impl Wanted {
    /// One of the two is there: clap sees to it. A fraction of a second is rounded up, since events have whole seconds.
    pub(super) fn new(gtid: Option<Gtid>, time: Option<jiff::Timestamp>) -> Self {
        let seconds =
            |time: jiff::Timestamp| time.as_second() + i64::from(time.subsec_nanosecond() > 0);
        gtid.map_or(Self::Time(time.map_or(0, seconds)), Self::Gtid)
    }

    fn is(self, gtid: Gtid, time: u32) -> bool {
        match self {
            Self::Gtid(wanted) => wanted == gtid,
            Self::Time(wanted) => i64::from(time) >= wanted,
        }
    }

    /// Whether it may lie between the point before this one and this one.
    fn may_precede(self, point: &Point) -> bool {
        match self {
            Self::Gtid(wanted) => point.spans.iter().any(|span| span.may_hold(wanted)),
            Self::Time(wanted) => i64::from(point.latest) >= wanted,
        }
    }

    fn missing(self) -> String {
        match self {
            Self::Gtid(gtid) => format!("{gtid} is not in the log"),
            Self::Time(seconds) => {
                let seconds = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
                format!("the log has no transaction at or after {}", time(seconds))
            }
        }
    }
}

/// RFC 3339, or without a zone in UTC, as all commands print times.
pub(super) fn parse_time(text: &str) -> Result<jiff::Timestamp, String> {
    let utc = |time| jiff::tz::TimeZone::UTC.to_timestamp(time);
    let without_zone = || text.parse::<jiff::civil::DateTime>().and_then(utc);
    text.parse().or_else(|_| without_zone()).map_err(|_| {
        "write 2026-01-31T12:00:00Z, or \"2026-01-31 12:00:00\", which is UTC".to_owned()
    })
}

/// Prints file, position, GTID and time of the first transaction that is wanted, of several logs in the first that has it.
pub(super) fn find<W: Write>(
    targets: &[Target],
    wanted: Wanted,
    out: &mut Out<W>,
) -> Result<(), Stop> {
    for file in targets.iter().flat_map(|target| &target.files) {
        if let Some((position, gtid, seconds)) = in_file(file, wanted)? {
            return out.line(&format!("{} {position} {gtid} {}", file.name, time(seconds)));
        }
    }
    Err(Failure::fault(wanted.missing()).into())
}

type Found = (u64, Gtid, u32);

fn in_file(file: &BinlogFile, wanted: Wanted) -> Result<Option<Found>, Stop> {
    let index = gtid_index::load(&OsFileSystem, &file.path).unwrap_or_default();
    let mut from = 0;
    for point in &index.points {
        if wanted.may_precede(point)
            && let Some(found) = between(file, wanted, from, point.position)?
        {
            return Ok(Some(found));
        }
        from = point.position;
    }
    if index.complete { Ok(None) } else { between(file, wanted, from, u64::MAX) }
}

/// Reads from a place between two transactions, or from the beginning (0), to a position or the file's end.
fn between(file: &BinlogFile, wanted: Wanted, from: u64, to: u64) -> Result<Option<Found>, Stop> {
    let mut scan = file.scan()?;
    if from > 0 {
        scan.skip_to(from).map_err(|error| file.fault(&error))?;
    }
    while scan.position() < to {
        let event = match scan.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // The end of a file that is being written.
            Err(error) if error.kind.is_truncation() => break,
            Err(error) => return Err(file.fault(&error)),
        };
        if event.header.event_type != EventType::GTID {
            continue;
        }
        let parsed = GtidEvent::parse(event.event);
        let gtid = parsed.map_err(|error| file.fault_at(event.position, error))?.gtid;
        if wanted.is(gtid, event.header.timestamp) {
            return Ok(Some((event.position, gtid, event.header.timestamp)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
