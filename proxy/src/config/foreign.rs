//! Servers' names for what Spillway calls otherwise, or does not have: answered with ours.

/// `(the server's name, what to write instead)`.
const NAMES: &[(&str, &str)] = &[
    ("sync_binlog", "Spillway calls it `binlog.flush_log_at_trx_commit`"),
    ("innodb_flush_log_at_trx_commit", "Spillway calls it `binlog.flush_log_at_trx_commit`"),
    ("expire_logs_days", "Spillway calls it `binlog.binlog_expire_logs_seconds`"),
    ("max_binlog_stmt_cache_size", "Spillway has one cache, `binlog.max_binlog_cache_size`"),
    ("binlog_stmt_cache_size", "Spillway has one cache, `binlog.binlog_cache_size`"),
    ("binlog_space_limit", "Spillway calls it `binlog.max_binlog_total_size`"),
    ("log_bin_index", "it follows `binlog.log_bin`: the index is `<log_bin>.index`"),
    ("log_bin_basename", "Spillway calls it `binlog.log_bin`, in the directory `binlog.dir`"),
    ("log-bin", "Spillway calls it `binlog.log_bin`"),
    ("datadir", "Spillway calls it `binlog.dir`"),
    ("server-id", "Spillway calls it `server_id`"),
    ("serverid", "Spillway calls it `server_id`"),
    ("bind_address", "Spillway has one `listen` a section: `source`, `replicas`, `http`"),
    ("port", "Spillway has one `listen` a section, as \"address:port\""),
    ("socket", "write it into `source.servers` as \"unix:/path\""),
    ("host", "write it into `source.servers` as \"host:port\""),
    ("server", "Spillway calls it `source.servers`, a list"),
    ("username", "Spillway calls it `user`, in [[replicas.user]] `name`"),
    ("gtid_mode", "leave it out, GTIDs are kept as the upstream gives them"),
    ("enforce_gtid_consistency", "leave it out, GTIDs are kept as the upstream gives them"),
    ("gtid_domain_id", "leave it out, GTIDs are kept as the upstream gives them"),
    ("gtid_strict_mode", "leave it out, GTIDs are kept as the upstream gives them"),
    ("binlog_format", "leave it out, Spillway records the upstream's row events"),
    ("binlog_row_image", "leave it out, row images are kept as the upstream gives them"),
    ("log_slave_updates", "leave it out, Spillway always records what it receives"),
    ("log_replica_updates", "leave it out, Spillway always records what it receives"),
    ("source_verify_checksum", "leave it out, checksums are always verified"),
    ("master_verify_checksum", "leave it out, checksums are always verified"),
    ("replicate_do_db", "leave it out, Spillway records every database"),
    ("replicate_ignore_db", "leave it out, Spillway records every database"),
    ("binlog_do_db", "leave it out, Spillway records every database"),
    ("binlog_ignore_db", "leave it out, Spillway records every database"),
    ("rpl_semi_sync_slave_enabled", "Spillway calls it `source.semi_sync`"),
    ("rpl_semi_sync_replica_enabled", "Spillway calls it `source.semi_sync`"),
    ("rpl_semi_sync_master_enabled", "Spillway calls it `source.commit_ack`"),
    ("rpl_semi_sync_source_enabled", "Spillway calls it `source.commit_ack`"),
    ("log_level", "Spillway calls it `log.level`"),
    ("tls_cert", "Spillway calls it `ssl_cert`"),
    ("tls_key", "Spillway calls it `ssl_key`"),
];

/// What to write instead of a server's name.
pub(super) fn our_name(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}
