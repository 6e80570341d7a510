//! `binlog list`: what each file holds, from its GTID index where it has one; only what the index does not cover is read.

use std::io::Write;

use spillway_binlog::event::{EventType, gtid::GtidEvent};
use spillway_binlog::fs::OsFileSystem;
use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::gtid_index::{self, Point};

use super::files::{BinlogFile, Target};
use super::{Out, Stop, time};

/// What a file holds.
#[derive(Debug, Default)]
struct Contents {
    transactions: u64,
    first: Option<Gtid>,
    last: Option<Gtid>,
    /// Times of the first and last transaction.
    from: u32,
    to: u32,
}

/// Prints a table.
pub(super) fn list<W: Write>(target: &Target, out: &mut Out<W>) -> Result<(), Stop> {
    out.line(&row("file", "size", "transactions", "first GTID", "last GTID", "from", "to"))?;
    for file in &target.files {
        let (contents, fault) = read(file);
        let gtid = |gtid: Option<Gtid>| gtid.map_or("-".to_owned(), |gtid| gtid.to_string());
        let when = |seconds| if seconds == 0 { "-".to_owned() } else { time(seconds) };
        out.line(&row(
            &file.name,
            &file.size().to_string(),
            &contents.transactions.to_string(),
            &gtid(contents.first),
            &gtid(contents.last),
            &when(contents.from),
            &when(contents.to),
        ))?;
        fault.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// The last GTID of a log, as far as its files can be read.
pub(super) fn last_gtid(target: &Target) -> Option<Gtid> {
    target.files.iter().rev().find_map(|file| read(file).0.last)
}

fn row(
    file: &str,
    size: &str,
    transactions: &str,
    first: &str,
    last: &str,
    from: &str,
    to: &str,
) -> String {
    format!("{file:<16} {size:>14} {transactions:>12}  {first:<22} {last:<22} {from:<20} {to}")
}

/// As far as the file can be read, and what ended that.
fn read(file: &BinlogFile) -> (Contents, Option<Stop>) {
    let mut contents = Contents::default();
    let result = fill(file, &mut contents);
    (contents, result.err())
}

fn fill(file: &BinlogFile, contents: &mut Contents) -> Result<(), Stop> {
    let mut scan = file.scan()?;
    let index = gtid_index::load(&OsFileSystem, &file.path).unwrap_or_default();
    let covered = index.points.last().filter(|point| point.transactions > 0);
    while let Some(event) = scan.next_event().map_err(|error| file.fault(&error))? {
        if event.header.event_type != EventType::GTID {
            continue;
        }
        let gtid = GtidEvent::parse(event.event)
            .map_err(|error| file.fault_at(event.position, error))?
            .gtid;
        contents.add(gtid, event.header.timestamp);
        if let (Some(point), 1) = (covered, contents.transactions) {
            contents.take(point);
            scan.skip_to(point.position).map_err(|error| file.fault(&error))?;
        }
    }
    Ok(())
}

impl Contents {
    fn add(&mut self, gtid: Gtid, time: u32) {
        if self.first.is_none() {
            (self.first, self.from) = (Some(gtid), time);
        }
        self.transactions += 1;
        (self.last, self.to) = (Some(gtid), time);
    }

    /// All before a point of the index; the first is known already.
    fn take(&mut self, point: &Point) {
        self.transactions = point.transactions;
        if let Some((gtid, time)) = point.last {
            (self.last, self.to) = (Some(gtid), time);
        }
    }
}
