//! One connection's life: probe the upstream, say where to go on, start the dump, stream.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spillway_binlog::LogEnd;
use spillway_binlog::alignment::Alignment;
use spillway_binlog::event::ChecksumAlgorithm;
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{self, Gtid, GtidState};

use super::attempts::{Attempts, Proof};
use super::connection::Connection;
use super::fault::Fault;
use super::semi_sync;
use super::stream::{self, Begin, Stream};
use super::{Context, StartPosition};

/// Runs a session to its end, which is always a fault.
pub(super) async fn run(
    context: &Context,
    attempts: &mut Attempts,
    proof: Proof,
) -> Result<Infallible, Fault> {
    let mut connection = connect(context).await?;
    let server_id = probe(&mut connection, context.options.server_id).await?;
    let plan = plan(&mut connection, context, server_id, proof).await?;
    // Where the upstream is now: once the log has that, it has caught up.
    let target = gtids(&mut connection, "gtid_binlog_pos").await?;
    let checksum = prepare(&mut connection, &plan, context.options.heartbeat_period).await?;
    connection.register(context.options.server_id).await?;
    let acknowledger = semi_sync::announce(&mut connection, context).await?;
    if acknowledger.is_some() {
        context.dump_thread.store(connection.thread_id, Ordering::Relaxed);
    }
    connection.start_dump(context.options.server_id, &plan.file).await?;
    if let Some(limit) = context.log.max_cache_size() {
        connection.reader.limit = connection.reader.limit.min(packet_limit(limit));
    }
    let mut stream = Stream::new(context, plan.begin, plan.alignment, checksum, target);
    stream.acknowledger = acknowledger;
    stream.held_up_at = attempts.held_up_at();
    stream::run(connection, stream, attempts).await
}

/// On the way down: a semi-synchronous dump that waits for an event does not look at its connection, and would count as a replica
/// that acknowledges. So its thread is killed, as a MariaDB replica does it.
pub(super) async fn end_dump(context: &Context) {
    const DEADLINE: Duration = Duration::from_secs(2);
    let thread = context.dump_thread.swap(0, Ordering::Relaxed);
    if thread == 0 {
        return;
    }
    let kill = async { connect(context).await?.query(&format!("KILL {thread}")).await };
    let source = context.upstream.name();
    match tokio::time::timeout(DEADLINE, kill).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(source, %error, "the upstream's dump was not killed"),
        Err(_) => tracing::debug!(source, "the upstream's dump was not killed in time"),
    }
}

/// A logged-in connection. The password is read anew.
pub(super) async fn connect(context: &Context) -> Result<Connection, Fault> {
    let credentials = &context.options.credentials;
    let password = (credentials.password)().map_err(Fault::Refused)?;
    let connection = Connection::open(&context.upstream, &credentials.user, &password).await?;
    note_certificates(context, &connection);
    Ok(connection)
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
    const STATUS_SEMI_SYNC_AND_CHECKSUM: usize = 1 + 2 + 4;
    // Header events are not part of a transaction, and small.
    const HEADER_EVENTS: usize = 1 << 20;
    let size = usize::try_from(max_cache_size).unwrap_or(usize::MAX);
    size.saturating_add(STATUS_SEMI_SYNC_AND_CHECKSUM).max(HEADER_EVENTS)
}

/// Refuses what cannot be captured, with a sentence that says what to do. Answers the upstream's server id.
async fn probe(connection: &mut Connection, server_id: u32) -> Result<u32, Fault> {
    let refuse = |sentence: String| Err::<u32, _>(Fault::Refused(sentence));
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
    let Some(id) = id.as_deref().and_then(|id| id.parse().ok()) else {
        return Err(Fault::Refused(format!("the upstream did not answer {sql}")));
    };
    if id == server_id {
        return Err(Fault::Refused(format!(
            "server_id {server_id} is the upstream's own: give Spillway another"
        )));
    }
    Ok(id)
}

/// Where a dump starts.
#[derive(Debug)]
struct Plan {
    /// `@slave_connect_state`; `None` dumps a file from its beginning.
    connect_state: Option<String>,
    file: String,
    begin: Option<Begin>,
    alignment: Alignment,
}

/// With the log's last transaction of the source, or behind it; where the log has nothing of it, or is to have none of what it
/// has, where `start` says.
async fn plan(
    connection: &mut Connection,
    context: &Context,
    server_id: u32,
    proof: Proof,
) -> Result<Plan, Fault> {
    let (log, domains) = (&context.log, &context.options.domains);
    if context.upstream.forget_begun(log, domains).map_err(Fault::Note)? {
        context.has_begun.store(true, Ordering::Relaxed);
    }
    let new_start = context.upstream.take_new_start();
    let logged = GtidState::from_list(&gtids(connection, "gtid_binlog_state").await?);
    let mut alignment = match proof {
        _ if new_start.is_some() || !has_begun(context) => Alignment::behind_last(log, domains),
        Proof::EachDomain => Alignment::with_last_of_each(log, domains, &logged)?,
        Proof::Last => Alignment::with_last(log, domains, &logged)?,
        Proof::Nothing => Alignment::behind_last(log, domains),
    };
    let applied = match alignment.owed() {
        Some(_) => gtids(connection, "gtid_slave_pos").await?,
        None => Vec::new(),
    };
    let upstream = Holdings { server_id, logged, applied };
    if new_start.is_none() {
        pass_vouched(context, &upstream, &mut alignment, proof)?;
    }
    for last in alignment.all_owed().collect::<Vec<_>>() {
        if !upstream.has_logged(last) && upstream.has_applied(last) {
            tracing::info!(
                source = context.upstream.name(),
                "the upstream has applied {last}, the log's last of its domain, and has not got it in its binlog: going on behind it, \
                 by its GTID alone"
            );
            alignment.go_behind_last_of(last.domain);
        }
    }
    if new_start.is_none() && has_begun(context) {
        let state = connect_state(connection, alignment.position(), domains).await?;
        return Ok(Plan {
            connect_state: Some(state),
            file: String::new(),
            begin: None,
            alignment,
        });
    }
    let state = match new_start.as_ref().unwrap_or(&context.options.start) {
        StartPosition::Oldest => {
            let file = connection.query_value("SHOW BINARY LOGS").await?;
            let begin = Some(Begin::WithGtidList);
            return Ok(Plan { connect_state: None, file, begin, alignment });
        }
        StartPosition::Current => upstream.logged,
        StartPosition::Gtid(list) => GtidState::from_list(list),
    };
    let state = domains.of_state(&state);
    let connect_state = Some(connect_state(connection, &state.position(), domains).await?);
    let begin = Some(Begin::WithState(state));
    Ok(Plan { connect_state, file: String::new(), begin, alignment })
}

/// Does not ask for what an operator vouches that this server holds in another form. Where there is nothing of that kind any more, or
/// the server has not got it, the word is void; of another server it says nothing.
fn pass_vouched(
    context: &Context,
    upstream: &Holdings,
    alignment: &mut Alignment,
    proof: Proof,
) -> Result<(), Fault> {
    let (log, source) = (&context.log, context.upstream.name());
    let Some(vouched) = context.upstream.vouched(log) else { return Ok(()) };
    let passed = alignment.owed_up_to(vouched.file, vouched.position);
    if passed.is_empty() {
        if proof == Proof::EachDomain {
            context.upstream.forget_vouched(log);
        }
        return Ok(());
    }
    if vouched.server.is_some_and(|id| id != upstream.server_id) {
        return Ok(());
    }
    let lacks = |gtid: &&Gtid| !upstream.has_logged(**gtid) && !upstream.has_applied(**gtid);
    if let Some(lacking) = passed.iter().find(lacks) {
        context.upstream.forget_vouched(log);
        tracing::error!(source, "ALTER SOURCE CONTINUE is void: the source has not got {lacking}");
        return Ok(());
    }
    context.upstream.bind_vouched(log, upstream.server_id).map_err(Fault::Note)?;
    passed.iter().for_each(|gtid| alignment.go_behind_last_of(gtid.domain));
    tracing::warn!(
        source,
        "going on behind {}, which the source is vouched for to hold in another form (ALTER SOURCE CONTINUE)",
        vouched.gtid
    );
    Ok(())
}

/// What a server says it has.
struct Holdings {
    server_id: u32,
    /// `@@gtid_binlog_state`.
    logged: GtidState,
    /// `@@gtid_slave_pos`; not asked for where nothing of the log is to be sent once more.
    applied: Vec<Gtid>,
}

impl Holdings {
    fn has_logged(&self, gtid: Gtid) -> bool {
        let last = self.logged.last_of(gtid.domain, gtid.server);
        last.is_some_and(|last| last.sequence >= gtid.sequence)
    }

    /// As its last of the domain. Where that is not in its binlog, it was restored from a backup of another server since, or does not
    /// log what it applies.
    fn has_applied(&self, gtid: Gtid) -> bool {
        self.applied.contains(&gtid)
    }
}

/// Whether the log has a beginning of the source's domains. One without a past leaves no trace in the log before its first
/// transaction: that is remembered for as long as the process lives.
fn has_begun(context: &Context) -> bool {
    let (log, domains) = (&context.log, &context.options.domains);
    let known = || domains.is_all() || !domains.of_state(&log.gtid_state()).is_empty();
    log.end() != LogEnd::default() && (context.has_begun.load(Ordering::Relaxed) || known())
}

/// A position in the source's domains, and where the upstream is in all others: it would refuse what another source has of
/// those, and send all it has of them without.
async fn connect_state(
    connection: &mut Connection,
    position: &[Gtid],
    domains: &Domains,
) -> Result<String, Fault> {
    let mut state = position.to_vec();
    if !domains.is_all() {
        let all = gtids(connection, "gtid_binlog_pos").await?;
        state.extend(all.into_iter().filter(|gtid| !domains.contains(gtid.domain)));
    }
    Ok(mariadb::print_list(&state))
}

/// A global variable that holds GTIDs.
async fn gtids(connection: &mut Connection, variable: &str) -> Result<Vec<Gtid>, Fault> {
    let text = connection.query_value(&format!("SELECT @@GLOBAL.{variable}")).await?;
    mariadb::parse_list(&text).map_err(|error| {
        Fault::Refused(format!("the upstream's {variable} is not understood: {error}"))
    })
}

/// What a replica says before it dumps. Answers the checksum of events before the first format description.
async fn prepare(
    connection: &mut Connection,
    plan: &Plan,
    heartbeat_period: Duration,
) -> Result<ChecksumAlgorithm, Fault> {
    let nanoseconds = heartbeat_period.as_nanos();
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
