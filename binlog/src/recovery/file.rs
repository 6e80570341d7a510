//! The header events a file of the log opens with.

use std::path::Path;

use super::OpenError;
use crate::event::{EventType, FormatDescription, gtid_list};
use crate::fs::FileSystem;
use crate::gtid::mariadb::Gtid;
use crate::reader::{FileScan, ScanError};

/// Format description and Gtid_list.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) format: FormatDescription,
    pub(super) gtid_list: Vec<Gtid>,
    /// The domains whose timeline it begins, where it begins one.
    pub(super) begins: Option<Vec<u32>>,
}

#[derive(Debug)]
pub(super) enum HeadError {
    /// The file ends before its header events do.
    Incomplete,
    Scan(ScanError),
}

impl From<ScanError> for HeadError {
    fn from(error: ScanError) -> Self {
        if error.kind.is_truncation() { Self::Incomplete } else { Self::Scan(error) }
    }
}

impl HeadError {
    pub(super) fn into_open_error(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Scan(fault) => OpenError::Damaged { path, fault },
            Self::Incomplete => {
                OpenError::Unfit { path, reason: "it ends before its header events do".into() }
            }
        }
    }
}

/// Reads the header events of a file.
pub(super) fn read_head(fs: &dyn FileSystem, path: &Path) -> Result<Head, HeadError> {
    let mut scan = FileScan::open(fs, path)?;
    let format = match scan.next_event()? {
        None => return Err(HeadError::Incomplete),
        Some(event) => FormatDescription::parse_checked(event.event).map_err(|fault| {
            HeadError::Scan(ScanError { position: event.position, kind: fault.into() })
        })?,
    };
    let Some(event) = scan.next_event()? else { return Err(HeadError::Incomplete) };
    let fault = |kind| HeadError::Scan(ScanError { position: event.position, kind });
    if event.header.event_type != EventType::GTID_LIST {
        let value = u64::from(event.header.event_type.0);
        let what = "type of a file's second event";
        return Err(fault(crate::event::EventError::Invalid { what, value }.into()));
    }
    let invalid = |error: crate::event::EventError| fault(error.into());
    let (gtid_list, _) = gtid_list::parse(event.event).map_err(invalid)?;
    let begins = gtid_list::timeline_domains(event.event).map_err(invalid)?;
    Ok(Head { format, gtid_list, begins })
}
