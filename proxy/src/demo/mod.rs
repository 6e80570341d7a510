//! demo
use crate::exit::{Failure, Outcome};
use std::path::PathBuf;
/// x
pub fn demo(_once: bool, _dir: Option<PathBuf>) -> Result<Outcome, Failure> {
    Ok(Outcome::Fine)
}
