//! Global transaction ids. One flavour a module: parse, print, order; no I/O.

mod domains;
pub mod mariadb;

pub use domains::Domains;
