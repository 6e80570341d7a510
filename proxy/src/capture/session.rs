//! One connection's life: probe the upstream, say where to go on, start the dump, stream.

use std::convert::Infallible;

use spillway_binlog::LogEnd;
use spillway_binlog::event::ChecksumAlgorithm;
use spillway_binlog::gtid::mariadb::{self, Gtid, GtidState};

use super::backoff::Backoff;
use super::connection::Connection;
use super::fault::Fault;
use super::stream::{self, Begin, HEARTBEAT_PERIOD, Stream};
use super::{Context, StartPosition};

/// Runs a session to its end, which is always a fault.
pub(super) async fn run(context: &Context, backoff: &mut Backoff) -> Result<Infallible, Fault> {
    let credentials = &context.options.credentials;
    let password = (credentials.password)().map_err(Fault::Refused)?;
    let mut connection = Connection::open(&context.upstream, &credentials.user, &password).await?;
    note_certificates(context, &connection);
    probe(&mut connection, context.options.server_id).await?;
    let plan = plan(&mut connection, context).await?;
    let target = target(&mut connection).await?;
    let checksum = prepare(&mut connection, &plan).await?;
    connection.register(context.options.server_id).await?;
    connection.start_dump(context.options.server_id, &plan.file).await?;
    if let Some(limit) = context.log.max_cache_size() {
        connection.reader.limit = connection.reader.limit.min(packet_limit(limit));
    }
    let stream = Stream::new(context, plan.begin, checksum, target);
    stream::run(connection, stream, backoff).await
}

fn note_certificates(context: &Context, connection: &Connection) {
    let Some(encryption) = connection.stream.encryption() else { return };
    let (source, metrics) = (context.upstream.name(), &context.metrics.certificates);
    tracing::debug!(source, %encryption, "the connection to the upstream is encrypted");
    if let Some(certificate) = &encryption.upstream {
        metrics.upstream_ends(certificate.not_after);
    }
    if let Some(certificate) = &encryption.own {
        metrics.own_ends(certificate.not_after);
    }
}

/// The largest packet of a dump whose event can be part of a transaction of `max_cache_size` bytes.
fn packet_limit(max_cache_size: u64) -> usize {
    const STATUS_AND_CHECKSUM: usize = 1 + 4;
    // Header events are not part of a transaction, and small.
    const HEADER_EVENTS: usize = 1 << 20;
    let size = usize::try_from(max_cache_size).unwrap_or(usize::MAX);
    size.saturating_add(STATUS_AND_CHECKSUM).max(HEADER_EVENTS)
}

/// Refuses what cannot be captured, with a sentence that says what to do.
async fn probe(connection: &mut Connection, server_id: u32) -> Result<(), Fault> {
    let refuse = |sentence: String| Err(Fault::Refused(sentence));
    let version = connection.query_value("SELECT @@version").await?;
    if !version.contains("MariaDB") {
        return refuse(format!(
            "the upstream is {version}: this release records MariaDB only; set capture = false to relay it"
        ));
    }
    let sql = "SELECT @@log_bin, @@binlog_format, @@server_id";
    let rows = connection.query(sql).await?;
    let Some([log_bin, format, id]) = rows.first().map(Vec::as_slice) else {
        return refuse(format!("the upstream did not answer {sql}"));
    };
    if log_bin.as_deref() != Some("1") {
        return refuse("log_bin is off on the upstream: start it with log_bin set".into());
    }
    if format.as_deref() == Some("STATEMENT") {
        return refuse(
            "binlog_format is STATEMENT on the upstream: SET GLOBAL binlog_format = ROW there, and let its clients connect again"
                .into(),
        );
    }
    if id.as_deref() == Some(server_id.to_string().as_str()) {
        return refuse(format!(
            "server_id {server_id} is the upstream's own: give Spillway another"
        ));
    }
    Ok(())
}

/// Where the upstream is now: once the log has that, it has caught up.
async fn target(connection: &mut Connection) -> Result<Vec<Gtid>, Fault> {
    let text = connection.query_value("SELECT @@GLOBAL.gtid_binlog_pos").await?;
    mariadb::parse_list(&text).map_err(|error| {
        Fault::Refused(format!("the upstream's gtid_binlog_pos is not understood: {error}"))
    })
}

/// Where a dump starts.
#[derive(Debug)]
struct Plan {
    /// `@slave_connect_state`; `None` dumps a file from its beginning.
    connect_state: Option<String>,
    file: String,
    begin: Option<Begin>,
}

impl Plan {
    fn after(state: &GtidState, begin: Option<Begin>) -> Self {
        let connect_state = Some(mariadb::print_list(&state.position()));
        Self { connect_state, file: String::new(), begin }
    }
}

/// Goes on behind the log's last transaction; an empty log begins where `start` says.
async fn plan(connection: &mut Connection, context: &Context) -> Result<Plan, Fault> {
    if context.log.end() != LogEnd::default() {
        return Ok(Plan::after(&context.log.gtid_state(), None));
    }
    match &context.options.start {
        StartPosition::Oldest => {
            let file = connection.query_value("SHOW BINARY LOGS").await?;
            Ok(Plan { connect_state: None, file, begin: Some(Begin::WithGtidList) })
        }
        StartPosition::Current => {
            let text = connection.query_value("SELECT @@GLOBAL.gtid_binlog_state").await?;
            let list = mariadb::parse_list(&text).map_err(|error| {
                Fault::Refused(format!(
                    "the upstream's gtid_binlog_state is not understood: {error}"
                ))
            })?;
            Ok(from_state(&GtidState::from_list(&list)))
        }
        StartPosition::Gtid(list) => Ok(from_state(&GtidState::from_list(list))),
    }
}

fn from_state(state: &GtidState) -> Plan {
    Plan::after(state, Some(Begin::WithState(state.clone())))
}

/// What a replica says before it dumps. Answers the checksum of events before the first format description.
async fn prepare(connection: &mut Connection, plan: &Plan) -> Result<ChecksumAlgorithm, Fault> {
    let nanoseconds = HEARTBEAT_PERIOD.as_nanos();
    connection.query(&format!("SET @master_heartbeat_period = {nanoseconds}")).await?;
    connection.query("SET @master_binlog_checksum = @@global.binlog_checksum").await?;
    let checksum = connection.query_value("SELECT @master_binlog_checksum").await?;
    connection.query("SET @mariadb_slave_capability = 4").await?;
    if let Some(state) = &plan.connect_state {
        connection.query(&format!("SET @slave_connect_state = '{state}'")).await?;
        connection.query("SET @slave_gtid_strict_mode = 0").await?;
        connection.query("SET @slave_gtid_ignore_duplicates = 0").await?;
    }
    let none = checksum == ChecksumAlgorithm::None.as_str();
    Ok(if none { ChecksumAlgorithm::None } else { ChecksumAlgorithm::Crc32 })
}
