//! The events in a server's binlog files, read from its data directory.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::client::Error;
use crate::dump::{Event, FORMAT_DESCRIPTION, HEADER};
use crate::servers::Server;

const MAGIC: usize = 4;

/// All events of all its binlog files. A file may end within an event, as after a kill: then the next one goes on.
pub fn events(server: &Server) -> Events {
    let dir = server.data_dir();
    let files = server.binlog_files().into_iter().map(|name| dir.join(name)).collect();
    Events { files, bytes: Vec::new(), at: 0, checksums: false }
}

/// See [`events`].
pub struct Events {
    files: VecDeque<PathBuf>,
    bytes: Vec<u8>,
    at: usize,
    checksums: bool,
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.clear_in_use();
            if let Some(event) = whole_event(self.bytes.get(self.at..).unwrap_or_default()) {
                self.at += event.len();
                return Some(Event::parse(event, &mut self.checksums));
            }
            let file = self.files.pop_front()?;
            self.bytes = std::fs::read(&file).expect("a binlog file can be read");
            self.at = MAGIC;
        }
    }
}

impl Events {
    /// The format description of an open file says so in a header flag that its checksum does not cover.
    fn clear_in_use(&mut self) {
        if self.bytes.get(self.at + 4) == Some(&FORMAT_DESCRIPTION)
            && let Some(flags) = self.bytes.get_mut(self.at + 17)
        {
            *flags &= !1;
        }
    }
}

fn whole_event(rest: &[u8]) -> Option<&[u8]> {
    let length = u32::from_le_bytes(rest.get(9..13)?.try_into().ok()?) as usize;
    (length >= HEADER).then(|| rest.get(..length)).flatten()
}
