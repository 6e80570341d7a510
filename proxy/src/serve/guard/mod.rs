//! What stands between the socket and opensrv-mysql 0.7.0, and makes that library safe to use here.
//!
//! - The library keeps a pointer into a buffer that it replaces when more than one packet comes in a read (datafuselabs/opensrv
//!   issue 66). The reader hands over exactly one whole packet at a time.
//! - It panics on a sequence number out of order, and reads without a limit. The reader checks and bounds both.
//! - It answers OK to every command it does not know, also to those that ask for another user. The reader lets through what the
//!   library really handles, and answers or refuses the rest itself.
//! - It answers `SELECT @@max_allowed_packet` and `USE` by itself, by their first bytes. Queries reach it with a blank in front.
//! - It ends the connection on a query that is not UTF-8. The reader answers an error.
//! - It judges a password by its own plugin, not the client's, and words its refusal its own way. See [`Login`] and the writer.
//! - A dump has to leave it: the reader keeps the packet and reports the end of the stream.

mod command;
mod login;
mod reader;
mod shared;
mod writer;

pub(super) use login::Login;
pub(super) use reader::GuardReader;
pub(super) use shared::SharedSocket;
pub(super) use writer::GuardWriter;

#[cfg(test)]
mod tests;
