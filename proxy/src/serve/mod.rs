//! From the log to replicas, CDC tools and mysqlbinlog.
