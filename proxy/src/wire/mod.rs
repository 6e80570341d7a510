//! Packets, capabilities, handshake and replies of the MySQL protocol. No I/O and no tokio here: bytes in, values out, and back.
//!
//! Every parser takes a slice that holds one whole packet payload, answers a [`WireError`] for bytes it cannot read and never
//! allocates from a length it has not checked against that slice.

pub mod capability;
pub mod cursor;
pub mod handshake;
pub mod packet;
pub mod reply;

/// Bytes that are not what the protocol says they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The packet ends too early.
    #[error("{packet}: ends before its {field}")]
    Truncated {
        /// What was being read.
        packet: &'static str,
        /// The field that is missing or cut.
        field: &'static str,
    },
    /// The packet says something it must not say.
    #[error("{packet}: {fault}")]
    Malformed {
        /// What was being read.
        packet: &'static str,
        /// What is wrong with it.
        fault: &'static str,
    },
}

#[cfg(test)]
mod tests;
