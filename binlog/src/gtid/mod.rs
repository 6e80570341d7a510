//! Positions and their order, one file a flavour. No I/O.

pub mod mariadb;
