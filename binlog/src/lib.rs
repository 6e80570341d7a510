//! The binlog of Spillway.

pub mod event;
pub mod gtid;
pub mod rows;
