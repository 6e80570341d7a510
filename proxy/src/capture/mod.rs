//! From the upstream into the log: a replica in the protocol's eyes.
