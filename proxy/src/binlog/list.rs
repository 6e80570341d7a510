//! `binlog list`: what each file holds.

use std::io::Write;

use spillway_binlog::event::{EventType, gtid::GtidEvent};
use spillway_binlog::gtid::mariadb::Gtid;

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
    while let Some(event) = scan.next_event().map_err(|error| file.fault(&error))? {
        if event.header.event_type != EventType::GTID {
            continue;
        }
        let gtid = GtidEvent::parse(event.event)
            .map_err(|error| file.fault_at(event.position, error))?
            .gtid;
        if contents.first.is_none() {
            (contents.first, contents.from) = (Some(gtid), event.header.timestamp);
        }
        contents.transactions += 1;
        (contents.last, contents.to) = (Some(gtid), event.header.timestamp);
    }
    Ok(())
}
