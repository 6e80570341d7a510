//! What ALTER SOURCE asks for, and its text in the note beside the log.

use spillway_binlog::Log;
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{self, Gtid, GtidState};

use crate::capture::StartPosition;

/// One word of an operator's about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// `START = '…'`
    Start(Wanted),
    /// `CONTINUE`
    Continue(Vouched),
}

/// Where a new timeline is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) start: StartPosition,
    /// The log's newest file when it was asked for; 0 is none.
    pub(super) file: u64,
    /// What the log is told to begin with, from when it may have begun: nothing more is handed to it before the note is gone.
    pub(super) begins: Option<GtidState>,
}

/// The transaction of the log that the source is vouched to hold in another form, and to go on behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vouched {
    pub(crate) gtid: Gtid,
    pub(crate) file: u64,
    /// Where it starts in that file.
    pub(crate) position: u64,
    /// The id of the first server that was gone on with since: of any other nothing was said.
    pub(crate) server: Option<u32>,
}

impl Wanted {
    /// Whether the log has begun it. With its first file it begins no timeline, and had nothing of the source before.
    pub(super) fn has_begun(&self, log: &Log, domains: &Domains) -> bool {
        let Some(begins) = &self.begins else { return false };
        let is_first = || {
            self.file == 0 && log.end().file > 0 && *begins == domains.of_state(&log.gtid_state())
        };
        log.has_begun_behind(self.file, domains) || is_first()
    }

    fn lines(&self) -> String {
        let Self { start, file, begins } = self;
        let mut text = format!("start {start}\nfile {file}\n");
        if let Some(state) = begins {
            text.push_str(&format!("begins {}\n", mariadb::print_list(&state.list())));
        }
        text
    }

    fn parse(lines: &[&str]) -> Option<Self> {
        let (start, file, begins) = match lines {
            [start, file] => (*start, *file, None),
            [start, file, begins] => (*start, *file, Some(*begins)),
            _ => return None,
        };
        let state = |line: &str| {
            let list = mariadb::parse_list(line.strip_prefix("begins ")?).ok()?;
            Some(GtidState::from_list(&list))
        };
        Some(Self {
            start: start.strip_prefix("start ")?.parse().ok()?,
            file: file.strip_prefix("file ")?.parse().ok()?,
            begins: match begins {
                Some(line) => Some(state(line)?),
                None => None,
            },
        })
    }
}

impl Vouched {
    fn lines(self) -> String {
        let Self { gtid, file, position, server } = self;
        let server = server.map(|id| format!("server {id}\n")).unwrap_or_default();
        format!("continue {gtid}\nfile {file}\nposition {position}\n{server}")
    }

    fn parse(lines: &[&str]) -> Option<Self> {
        let [gtid, file, position, server @ ..] = lines else { return None };
        let server = match server {
            [] => None,
            [server] => Some(server.strip_prefix("server ")?.parse().ok()?),
            _ => return None,
        };
        Some(Self {
            gtid: gtid.strip_prefix("continue ")?.parse().ok()?,
            file: file.strip_prefix("file ")?.parse().ok()?,
            position: position.strip_prefix("position ")?.parse().ok()?,
            server,
        })
    }
}

impl Asked {
    pub(super) fn to_text(&self, source: &str) -> String {
        let lines = match self {
            Self::Start(wanted) => wanted.lines(),
            Self::Continue(vouched) => vouched.lines(),
        };
        let mut text = format!("source {source}\n{lines}");
        let sum = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("crc32 {sum:08x}\n"));
        text
    }

    /// `None` for what [`Asked::to_text`] has not written for this source.
    pub(super) fn parse(text: &str, source: &str) -> Option<Self> {
        let lines = text.lines().collect::<Vec<_>>();
        let [_, lines @ .., _] = lines.as_slice() else { return None };
        let asked = if lines.first()?.starts_with("continue ") {
            Self::Continue(Vouched::parse(lines)?)
        } else {
            Self::Start(Wanted::parse(lines)?)
        };
        (asked.to_text(source) == text).then_some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Asked> {
        let list = |text| mariadb::parse_list(text).unwrap();
        let state = |text| Some(GtidState::from_list(&list(text)));
        let at = StartPosition::Gtid(list("0-1-5,1-9-1"));
        let vouched = |server| {
            let gtid = "0-1-77".parse().unwrap();
            Asked::Continue(Vouched { gtid, file: 3, position: 1 << 40, server })
        };
        let mut all = vec![vouched(None), vouched(Some(7))];
        for start in [StartPosition::Oldest, StartPosition::Current, at] {
            for begins in [None, state(""), state("0-1-6,0-2-7,1-9-1")] {
                all.push(Asked::Start(Wanted { start: start.clone(), file: 7, begins }));
            }
        }
        all
    }

    #[test]
    fn a_note_reads_back() {
        for asked in all() {
            assert_eq!(Asked::parse(&asked.to_text("main"), "main"), Some(asked));
        }
    }

    #[test]
    fn a_note_that_is_cut_or_changed_is_no_note() {
        for text in all().iter().map(|asked| asked.to_text("main")) {
            assert_eq!(Asked::parse(&text, "other"), None);
            for at in 0..text.len() {
                assert_eq!(Asked::parse(&text[..at], "main"), None, "{at}");
                for flipped in [0x01, 0x20] {
                    let mut bytes = text.clone().into_bytes();
                    bytes[at] ^= flipped;
                    if let Ok(changed) = String::from_utf8(bytes) {
                        assert_eq!(Asked::parse(&changed, "main"), None, "{at}");
                    }
                }
            }
        }
    }
}
