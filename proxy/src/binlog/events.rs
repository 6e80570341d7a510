//! `binlog events`: one line an event.

use std::io::Write;

use serde::Serialize;
use spillway_binlog::reader::ScannedEvent;

use super::files::Target;
use super::{Out, Stop, summary};
use crate::exit::Failure;

/// An event as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    file: &'a str,
    position: u64,
    #[serde(rename = "type")]
    event_type: String,
    size: u32,
    end_position: u32,
    timestamp: u32,
    server_id: u32,
    flags: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    gtid: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    summary: String,
}

/// Prints the events of all files.
pub(super) fn events<W: Write>(target: &Target, json: bool, out: &mut Out<W>) -> Result<(), Stop> {
    for file in &target.files {
        let mut scan = file.scan()?;
        while let Some(event) = scan.next_event().map_err(|error| file.fault(&error))? {
            let line = line(&file.name, &event);
            out.line(&if json { as_json(&line)? } else { as_text(&line) })?;
        }
    }
    Ok(())
}

fn line<'a>(file: &'a str, event: &ScannedEvent<'_>) -> Line<'a> {
    let header = event.header;
    Line {
        file,
        position: event.position,
        event_type: header.event_type.to_string(),
        size: header.event_size,
        end_position: header.end_position,
        timestamp: header.timestamp,
        server_id: header.server_id,
        flags: header.flags,
        gtid: summary::gtid(event.event).map(|gtid| gtid.to_string()),
        summary: summary::summary(event.event),
    }
}

fn as_json(line: &Line<'_>) -> Result<String, Stop> {
    serde_json::to_string(line).map_err(|error| Failure::fault(error).into())
}

fn as_text(line: &Line<'_>) -> String {
    let gtid = line.gtid.as_deref().unwrap_or_default();
    let text = format!(
        "{} {:>10} {:<24} {:>9} {:>10}  {gtid} {}",
        line.file, line.position, line.event_type, line.size, line.end_position, line.summary
    );
    text.trim_end().to_owned()
}
