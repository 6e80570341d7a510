//! See `side_files` in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spillway_binlog_fuzz::side_files(data));
