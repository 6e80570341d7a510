//! Harness for tests against real servers.
