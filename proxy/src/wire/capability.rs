//! Capability bits of greeting and login: the 32 of the common protocol, and above them the extended ones of MariaDB.
//!
//! A MariaDB server leaves bit 0 clear and sends 32 more bits in bytes that MySQL keeps reserved; they are bits 32 to 63 here.

/// MySQL's LONG_PASSWORD, always set by MySQL; MariaDB calls it CLIENT_MYSQL and leaves it clear to announce extended bits.
pub const CLIENT_MYSQL: u64 = 1;
/// Affected rows count rows found, not rows changed.
pub const FOUND_ROWS: u64 = 1 << 1;
/// Longer column flags.
pub const LONG_FLAG: u64 = 1 << 2;
/// The login names a database.
pub const CONNECT_WITH_DB: u64 = 1 << 3;
/// zlib compression after the login.
pub const COMPRESS: u64 = 1 << 5;
/// LOAD DATA LOCAL INFILE.
pub const LOCAL_FILES: u64 = 1 << 7;
/// The 4.1 protocol; nothing older is spoken here.
pub const PROTOCOL_41: u64 = 1 << 9;
/// `wait_timeout` is the one for interactive clients.
pub const INTERACTIVE: u64 = 1 << 10;
/// TLS follows a short login packet.
pub const SSL: u64 = 1 << 11;
/// Status flags know transactions.
pub const TRANSACTIONS: u64 = 1 << 13;
/// Authentication of 4.1 and later.
pub const SECURE_CONNECTION: u64 = 1 << 15;
/// COM_QUERY may hold several statements.
pub const MULTI_STATEMENTS: u64 = 1 << 16;
/// COM_QUERY may be answered by several results.
pub const MULTI_RESULTS: u64 = 1 << 17;
/// COM_STMT_EXECUTE may be answered by several results.
pub const PS_MULTI_RESULTS: u64 = 1 << 18;
/// Greeting and login name an authentication plugin.
pub const PLUGIN_AUTH: u64 = 1 << 19;
/// The login has connection attributes.
pub const CONNECT_ATTRS: u64 = 1 << 20;
/// The login's authentication data has a length-encoded length.
pub const PLUGIN_AUTH_LENENC: u64 = 1 << 21;
/// A login with an expired password is let in to change it.
pub const CAN_HANDLE_EXPIRED_PASSWORDS: u64 = 1 << 22;
/// OK packets may carry session state.
pub const SESSION_TRACK: u64 = 1 << 23;
/// Result sets end with an OK packet (first byte 0xfe), and column definitions with nothing.
pub const DEPRECATE_EOF: u64 = 1 << 24;
/// MySQL: result sets may come without column definitions, and say so in a byte behind their column count.
pub const OPTIONAL_RESULTSET_METADATA: u64 = 1 << 25;
/// zstd compression after the login.
pub const ZSTD_COMPRESSION: u64 = 1 << 26;
/// MySQL: COM_QUERY starts with attributes.
pub const QUERY_ATTRIBUTES: u64 = 1 << 27;

/// MariaDB: progress reports during long statements.
pub const MARIADB_PROGRESS: u64 = 1 << 32;
/// MariaDB: COM_STMT_BULK_EXECUTE.
pub const MARIADB_STMT_BULK_OPERATIONS: u64 = 1 << 34;
/// MariaDB: column definitions carry extended type names.
pub const MARIADB_EXTENDED_METADATA: u64 = 1 << 35;
/// MariaDB: column definitions of a prepared statement may be left out when the client has them.
pub const MARIADB_CACHE_METADATA: u64 = 1 << 36;
/// MariaDB: bulk executions may ask for one result a row.
pub const MARIADB_BULK_UNIT_RESULTS: u64 = 1 << 37;

/// Names of the bits that a user may meet in a message; others are shown as numbers.
pub fn name(bit: u64) -> Option<&'static str> {
    Some(match bit {
        COMPRESS => "CLIENT_COMPRESS",
        SSL => "CLIENT_SSL",
        PROTOCOL_41 => "CLIENT_PROTOCOL_41",
        ZSTD_COMPRESSION => "CLIENT_ZSTD_COMPRESSION_ALGORITHM",
        _ => return None,
    })
}
