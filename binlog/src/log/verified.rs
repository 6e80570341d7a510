//! `binlog.verified`: a hint beside the log that spares recovery work and doubt.
//!
//! ```text
//! closed NAME LENGTH SECONDS.NANOSECONDS   the file was whole when it had this length and time of change
//! durable NAME POSITION SECONDS.NANOSECONDS  up to here the file was whole and on disk, and this its time of change
//! ```
//! It is replaced whole and never synced. An older one, or none, costs time at the next open: files are verified again. A fault
//! before the durable position is damage; behind it, it is a write that the crash cut short. A power cut may leave an older hint, or one
//! whose bytes are lost: then nothing is known to be durable of a file that it does not name.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::active::Place;
use super::files::FileEntry;
use super::index;
use crate::fs::{Metadata, read_exact_at};

/// What the hint says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// There is a hint, whatever is left of it.
    there: bool,
    closed: HashMap<String, (u64, String)>,
    durable: HashMap<String, (u64, Option<String>)>,
}

impl Verified {
    /// Whether a closed file is still what was verified.
    pub(crate) fn is_closed(&self, name: &str, metadata: Metadata) -> bool {
        let known = self.closed.get(name);
        known.is_some_and(|(len, time)| *len == metadata.len && *time == stamp(metadata.modified))
    }

    /// Up to where a file is known to have been durable; `None` where somebody has taken the hint away.
    pub(crate) fn durable(&self, name: &str, number: u64) -> Option<u64> {
        // The first file's hint may not have reached the disk yet; those of later files find one there.
        let unknown = (self.there || number == 1).then_some(0);
        self.durable.get(name).map(|(position, _)| *position).or(unknown)
    }

    /// Up to where a file need not be verified again: it has grown since, as files do that are being written, or it is just what
    /// it was. A shorter one, or one of that length with another time of change, is none of our doing.
    pub(crate) fn settled(&self, name: &str, metadata: Metadata) -> Option<u64> {
        let (position, time) = self.durable.get(name)?;
        let time = time.as_ref()?;
        let same = metadata.len == *position && *time == stamp(metadata.modified);
        (same || metadata.len > *position).then_some(*position)
    }
}

/// Reads the hint; an unreadable one says nothing.
pub(crate) fn read(place: &Place<'_>) -> Verified {
    let there = place.fs.metadata(&path(place)).is_ok();
    let verified = read_text(place).map(|text| parse(&text)).unwrap_or_default();
    Verified { there, ..verified }
}

fn read_text(place: &Place<'_>) -> io::Result<String> {
    let path = path(place);
    let file = place.fs.open(&path, false)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).map_err(io::Error::other)?];
    read_exact_at(file.as_ref(), &mut bytes, 0)?;
    String::from_utf8(bytes).map_err(|error| io::Error::other(error.to_string()))
}

fn parse(text: &str) -> Verified {
    let mut verified = Verified::default();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["closed", name, len, time] => {
                if let Ok(len) = len.parse() {
                    verified.closed.insert((*name).to_owned(), (len, (*time).to_owned()));
                }
            }
            ["durable", name, position, time @ ..] => {
                if let Ok(position) = position.parse() {
                    let time = time.first().map(|time| (*time).to_owned());
                    verified.durable.insert((*name).to_owned(), (position, time));
                }
            }
            _ => {}
        }
    }
    verified
}

/// Replaces the hint: the closed files, and the active file up to `durable`.
pub(crate) fn write(place: &Place<'_>, files: &[Arc<FileEntry>], durable: u64) -> io::Result<()> {
    let mut text = String::new();
    for entry in files {
        let changed = || place.fs.metadata(&entry.path).map(|metadata| stamp(metadata.modified));
        let line = match entry.closed_len() {
            None => format!("durable {} {durable} {}\n", entry.name, changed()?),
            // A closed file does not change: asked once, however many there are.
            Some(len) => {
                let time = match entry.closed_at.get() {
                    Some(time) => time.clone(),
                    None => entry.closed_at.get_or_init(|| changed().unwrap_or_default()).clone(),
                };
                format!("closed {} {len} {time}\n", entry.name)
            }
        };
        text.push_str(&line);
    }
    index::replace(place, &path(place), text.as_bytes(), false)
}

fn path(place: &Place<'_>) -> PathBuf {
    place.dir.join(format!("{}.verified", place.basename))
}

pub(crate) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}
