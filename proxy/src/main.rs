//! The `spillway` binary: parse, build, run, drain.

fn main() {}
