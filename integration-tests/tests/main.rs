//! All tests on real servers, one module a topic, in one binary: servers and their templates are shared by the run.

// These are tests: a failed expectation is what a panic is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod oracles;
