//! See `file` in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spillway_binlog_fuzz::file(data));
