//! Reading: a cursor over what is published, where a replica attaches, and the scan of one whole file.

mod attach;
mod cursor;
mod scan;
mod seek;
mod view;

pub use attach::AttachError;
pub use cursor::{Cursor, EventRun, ReadError, Run};
pub use scan::{FileScan, ScanError, ScanErrorKind, ScannedEvent};
pub use seek::Sought;
pub(crate) use view::View;
