//! The dump's events: checked, put together to transactions, matched with the log's end, handed to the log under a byte bound.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spillway_binlog::alignment::{Alignment, Offer};
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, gtid_list,
};
use spillway_binlog::fs::is_full;
use spillway_binlog::gtid::mariadb::{Gtid, GtidState, print_list};
use spillway_binlog::transaction::{
    Assembled, Transaction, TransactionAssembler, TransactionError,
};
use spillway_binlog::{Health, LogEnd};
use tokio::time::{Instant, timeout, timeout_at};

use super::attempts::Attempts;
use super::connection::Connection;
use super::fault::Fault;
use super::in_flight::InFlight;
use super::packets::PacketError;
use super::semi_sync::Acknowledger;
use super::watch::{Answer, Watch};
use super::{Context, set_state};
use crate::source::CaptureState;

/// Bytes handed to the log and not yet written at which reading waits: enough for whole commit groups from one source.
const MAX_IN_FLIGHT: u64 = 64 << 20;

/// How an empty log begins.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// With the Gtid_list of the upstream's file: the dump starts at its beginning.
    WithGtidList,
    /// With a state known before the dump.
    WithState(GtidState),
}

/// What a session knows of its stream.
pub(super) struct Stream<'a> {
    context: &'a Context,
    begin: Option<Begin>,
    /// A new timeline was handed to the log, and is not known to be there yet.
    begins_anew: bool,
    /// Matches what is sent first against the log's end.
    alignment: Alignment,
    checksum: ChecksumAlgorithm,
    format: Option<Arc<FormatDescription>>,
    assembler: Option<TransactionAssembler>,
    in_flight: InFlight,
    /// Where the upstream was when the session began, less what the log has of it.
    target: Vec<Gtid>,
    watch: Watch<'a>,
    /// Of a semi-synchronous dump.
    pub(super) acknowledger: Option<Acknowledger>,
    /// A transaction that no session could take yet: before it is passed, all is not well.
    pub(super) held_up_at: Option<Gtid>,
    /// The last event was a heartbeat.
    idle: bool,
    /// Domains that were skipped in this session.
    skipped: BTreeSet<u32>,
    last: Option<Gtid>,
    last_timestamp: u32,
    transactions: u64,
    skipped_transactions: u64,
    bytes: u64,
}

/// Streams until something ends it.
pub(super) async fn run(
    mut connection: Connection,
    mut stream: Stream<'_>,
    attempts: &mut Attempts,
) -> Result<Infallible, Fault> {
    let result = stream.pump(&mut connection, attempts).await;
    // What was handed over decides where the next session goes on, so it is waited for.
    stream.publish();
    stream.settle(0).await?;
    result
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        context: &'a Context,
        begin: Option<Begin>,
        alignment: Alignment,
        checksum: ChecksumAlgorithm,
        mut target: Vec<Gtid>,
    ) -> Self {
        target.retain(|gtid| context.options.domains.contains(gtid.domain));
        Self {
            context,
            begin,
            begins_anew: false,
            alignment,
            checksum,
            format: None,
            assembler: None,
            in_flight: InFlight::default(),
            target,
            watch: Watch::new(context),
            acknowledger: None,
            held_up_at: None,
            idle: false,
            skipped: BTreeSet::new(),
            last: None,
            last_timestamp: 0,
            transactions: 0,
            skipped_transactions: 0,
            bytes: 0,
        }
    }

    async fn pump(
        &mut self,
        connection: &mut Connection,
        attempts: &mut Attempts,
    ) -> Result<Infallible, Fault> {
        let (mut heard, mut silent_at) = (true, Instant::now());
        loop {
            self.take_buffered(connection).await?;
            if self.context.upstream.is_to_begin_anew() {
                return Err(Fault::Anew);
            }
            let is_on = self.format.is_some() && self.alignment.owed().is_none();
            let health = self.context.log.health();
            if is_on && self.held_up_at.is_none() {
                self.streaming(attempts, &health);
            }
            self.publish();
            self.note_caught_up();
            if std::mem::take(&mut self.idle) {
                // The upstream has nothing to send: that must be because the log has all it has.
                self.settle(0).await?;
                self.watch.heartbeat();
            }
            self.acknowledge(connection).await?;
            if std::mem::take(&mut heard) {
                // From here on: the log may have kept us from listening.
                silent_at = Instant::now() + self.silence_limit();
            }
            let filled = connection.reader.fill(&mut connection.stream);
            tokio::select! {
                filled = timeout_at(silent_at, filled) => {
                    filled.map_err(|_| self.silent())??;
                    heard = true;
                }
                // What is sent meanwhile is taken, as far as memory goes, but not recorded.
                _ = self.context.log.health_changed(&health) => {}
                ready = ready(self.acknowledger.as_ref()) => ready?,
                answer = self.watch.answered() => self.answered(&answer, attempts)?,
            }
        }
    }

    /// After three periods without a heartbeat.
    fn silence_limit(&self) -> Duration {
        self.context.options.heartbeat_period.saturating_mul(3)
    }

    fn silent(&self) -> Fault {
        Fault::Silent(self.silence_limit().as_secs())
    }

    /// All packets that were read.
    async fn take_buffered(&mut self, connection: &mut Connection) -> Result<(), Fault> {
        while let Some(payload) =
            connection.reader.buffered().map_err(|error| self.packet(error))?
        {
            match payload.split_first() {
                Some((0, event)) => {
                    if self.event_packet(event)? {
                        connection.reader.may_restart();
                    }
                }
                Some((0xfe, rest)) if rest.len() < 8 => return Err(Fault::DumpEnded),
                _ => {
                    let payload = payload.to_vec();
                    connection.check_error(&payload)?;
                    return Err(Fault::DumpEnded);
                }
            }
            if std::mem::take(&mut self.begins_anew) {
                self.begun_anew().await?;
            }
            if self.in_flight.bytes >= MAX_IN_FLIGHT {
                self.publish();
                self.settle(MAX_IN_FLIGHT).await?;
                self.acknowledge(connection).await?;
            }
        }
        Ok(())
    }

    /// Takes an event; answers whether the upstream waits for an acknowledgement of it.
    fn event_packet(&mut self, packet: &[u8]) -> Result<bool, Fault> {
        let Some(acknowledger) = &mut self.acknowledger else {
            self.event(packet)?;
            return Ok(false);
        };
        let (event, asked) = acknowledger.take_prefix(packet)?;
        self.event(event)?;
        let in_transaction =
            self.assembler.as_ref().is_some_and(TransactionAssembler::in_transaction);
        if let Some(acknowledger) = self.acknowledger.as_mut().filter(|_| !in_transaction) {
            acknowledger.transaction_ends();
        }
        Ok(asked)
    }

    /// Tells the upstream what the log has by now of what it waits for.
    async fn acknowledge(&mut self, connection: &mut Connection) -> Result<(), Fault> {
        let ready = self.acknowledger.as_mut().and_then(Acknowledger::take_ready);
        let Some(acknowledgement) = ready else { return Ok(()) };
        let sent = connection.acknowledge(&acknowledgement);
        timeout(self.silence_limit(), sent).await.map_err(|_| self.silent())??;
        self.context.metrics.acknowledgements.inc();
        Ok(())
    }

    fn answered(&mut self, answer: &Answer, attempts: &mut Attempts) -> Result<(), Fault> {
        match self.watch.conclude(answer) {
            Some(difference) if attempts.is_news(&difference) => Err(Fault::Stale(difference)),
            _ => Ok(()),
        }
    }

    /// A packet that cannot be taken: too long for the transaction it would be in, or not what the protocol says.
    fn packet(&self, error: PacketError) -> Fault {
        match (error, self.context.log.max_cache_size()) {
            (PacketError::TooLong { .. }, Some(limit)) => {
                match self.assembler.as_ref().and_then(TransactionAssembler::open) {
                    Some((gtid, false)) => Fault::ForeignTooLarge { gtid, limit },
                    open => Fault::EventTooLarge { open: open.map(|(gtid, _)| gtid), limit },
                }
            }
            _ => error.into(),
        }
    }

    /// A transaction is behind us.
    fn pass(&mut self, gtid: Gtid) {
        self.held_up_at = self.held_up_at.filter(|held_up| *held_up != gtid);
    }

    /// Events arrive that go on where the log ends.
    fn streaming(&mut self, attempts: &mut Attempts, health: &Health) {
        if attempts.streaming() {
            super::diverged::forget(self.context);
        }
        self.watch.streaming();
        self.context.metrics.up.set(1);
        match health.shortage() {
            Some(told) => paused(self.context, told),
            None => set_state(self.context, CaptureState::Streaming, ""),
        }
    }

    fn event(&mut self, event: &[u8]) -> Result<(), Fault> {
        self.bytes += event.len() as u64;
        let header = EventHeader::parse_whole(event)?;
        if header.event_type == EventType::FORMAT_DESCRIPTION {
            return self.format_description(event);
        }
        let event = self.checksum.verify(event)?;
        if let Some(acknowledger) = &mut self.acknowledger {
            acknowledger.pass(&header, event)?;
        }
        self.idle = header.event_type == EventType::HEARTBEAT;
        if !self.idle {
            self.watch.not_idle();
        }
        if header.event_type == EventType::GTID_LIST {
            return self.gtid_list(event);
        }
        if header.timestamp != 0 {
            self.last_timestamp = header.timestamp;
        }
        let Some(assembler) = &mut self.assembler else {
            // The artificial Rotate before the format description.
            return Ok(());
        };
        if self.idle && !assembler.in_transaction() {
            return self.nothing_more();
        }
        match assembler.push(event).map_err(|error| cannot_take(error, assembler.open()))? {
            Assembled::Complete(transaction) => return self.transaction(transaction),
            Assembled::Skipped(gtid) => self.skipped(gtid),
            Assembled::Pending | Assembled::Outside => {}
        }
        Ok(())
    }

    fn transaction(&mut self, transaction: Transaction) -> Result<(), Fault> {
        self.pass(transaction.gtid());
        match self.alignment.offer(&transaction)? {
            Offer::Skip => return Ok(()),
            Offer::Diverged(divergence) => return Err(Fault::Diverged(divergence.to_string())),
            Offer::Append => {}
        }
        self.last = Some(transaction.gtid());
        self.transactions += 1;
        let bytes = transaction.size();
        let ticket = self.context.submitter.submit(transaction);
        if let Some(acknowledger) = &mut self.acknowledger {
            acknowledger.handed_over(&ticket);
        }
        self.in_flight.add(ticket, bytes);
        Ok(())
    }

    /// The upstream has sent all it has.
    fn nothing_more(&mut self) -> Result<(), Fault> {
        self.held_up_at = None;
        match self.alignment.owed() {
            None => Ok(()),
            Some(gtid) => Err(Fault::Diverged(format!(
                "the log's last transaction is {gtid}, the upstream has ended without it"
            ))),
        }
    }

    /// A transaction of another domain. One that no source records is told, once a session.
    fn skipped(&mut self, gtid: Gtid) {
        self.pass(gtid);
        self.skipped_transactions += 1;
        if self.skipped.insert(gtid.domain) && !self.context.peers.record(gtid.domain) {
            tracing::warn!(
                source = self.context.upstream.name(),
                "transactions of domain {} are not recorded, {gtid} first: no source names it in gtid_domains",
                gtid.domain
            );
        }
    }

    /// The upstream's next file, or the first of the dump.
    fn format_description(&mut self, event: &[u8]) -> Result<(), Fault> {
        let mut format = FormatDescription::parse(event)?;
        self.checksum = format.checksum;
        if self.assembler.as_ref().is_some_and(TransactionAssembler::in_transaction) {
            // The upstream crashed in the middle of it; what it had sent was never committed.
            tracing::warn!(
                source = self.context.upstream.name(),
                "a transaction was cut short by the upstream"
            );
        }
        let Context { options, submitter, upstream, peers, .. } = self.context;
        if peers.are_several() {
            // Of one source's start a replica would drop the temporary tables of all.
            format.created = 0;
        }
        let format = Arc::new(format);
        peers.admit(upstream.name(), &format).map_err(Fault::Refused)?;
        match &mut self.assembler {
            // What came last, outside of transactions, rides with the first one of this file.
            Some(assembler) => assembler.next_file(Arc::clone(&format)),
            None => {
                let assembler = submitter.assembler(Arc::clone(&format));
                self.assembler = Some(assembler.recording(options.domains.clone()));
            }
        }
        self.format = Some(Arc::clone(&format));
        if let Some(Begin::WithState(state)) = &self.begin {
            return self.begin_at(format, state.clone());
        }
        Ok(())
    }

    /// The log has something of the source from here on.
    fn begin_at(&mut self, format: Arc<FormatDescription>, state: GtidState) -> Result<(), Fault> {
        let Context { options, log, submitter, upstream, has_begun, .. } = self.context;
        let domains = options.domains.clone();
        let begins = domains.of_state(&state);
        let position = print_list(&begins.position());
        self.begins_anew = upstream.begins_anew(log, begins).map_err(Fault::Note)?;
        upstream.begins_at(&position);
        let ticket = if self.begins_anew {
            submitter.begin_anew(format, state, domains)
        } else {
            submitter.begin_domains(format, state, domains)
        };
        self.in_flight.add(ticket, 0);
        self.begin = None;
        has_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What an operator asked for is done, on disk, and nobody's to do again.
    async fn begun_anew(&mut self) -> Result<(), Fault> {
        self.settle(0).await?;
        let Context { log, upstream, .. } = self.context;
        upstream.has_begun_anew(log).map_err(Fault::Note)
    }

    fn gtid_list(&mut self, event: &[u8]) -> Result<(), Fault> {
        let (list, _) = gtid_list::parse(event)?;
        if let (Some(Begin::WithGtidList), Some(format)) = (&self.begin, &self.format) {
            let format = Arc::clone(format);
            return self.begin_at(format, GtidState::from_list(&list));
        }
        Ok(())
    }

    /// Waits until less than `limit` bytes are in flight, or nothing at all.
    async fn settle(&mut self, limit: u64) -> Result<(), Fault> {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        while let Some(ticket) = self.in_flight.oldest(limit) {
            match timeout(LOOK_EVERY, ticket.written()).await {
                Ok(written) => written?,
                Err(_) => {
                    let health = self.context.log.health();
                    health.shortage().into_iter().for_each(|told| paused(self.context, told));
                }
            }
        }
        Ok(())
    }

    /// Tells the log once it has what this and every other upstream had when their sessions began.
    fn note_caught_up(&mut self) {
        let Context { log, peers, upstream, .. } = self.context;
        if log.is_caught_up() || log.end() == LogEnd::default() {
            return;
        }
        if peers.is_caught_up(upstream.name()) {
            return;
        }
        let state = log.gtid_state();
        self.target.retain(|gtid| {
            let known = state.last_of(gtid.domain, gtid.server);
            known.is_none_or(|known| known.sequence < gtid.sequence)
        });
        if self.target.is_empty() && peers.note_caught_up(upstream.name()) {
            log.set_caught_up();
        }
    }

    /// Tells status and metrics how far it is; once a read, not once a transaction.
    fn publish(&mut self) {
        let metrics = &self.context.metrics;
        metrics.bytes.inc_by(std::mem::take(&mut self.bytes));
        metrics.transactions.inc_by(std::mem::take(&mut self.transactions));
        metrics.skipped.inc_by(std::mem::take(&mut self.skipped_transactions));
        if self.last_timestamp != 0 {
            metrics.last_event_timestamp.set(i64::from(self.last_timestamp));
            let gtid = self.last.take().map(|gtid| gtid.to_string());
            let upstream = &self.context.upstream;
            upstream.set_capture_progress(gtid.as_deref(), self.last_timestamp);
        }
        self.report_unpacked();
    }

    fn report_unpacked(&mut self) {
        let Some(assembler) = &mut self.assembler else { return };
        for unpacked in assembler.take_unpacked() {
            tracing::warn!(
                source = self.context.upstream.name(),
                table = unpacked.table,
                "rows events are recorded as they came, not repacked: {}",
                unpacked.reason
            );
        }
    }
}

/// The log waits for something, and all behind it.
fn paused(context: &Context, told: &str) {
    set_state(context, CaptureState::PausedForDisk, told);
}

/// An event of the transaction that is open, if one is.
fn cannot_take(error: TransactionError, open: Option<(Gtid, bool)>) -> Fault {
    match (error, open) {
        (TransactionError::Cache(error), Some((gtid, _))) if is_full(&error) => {
            Fault::CacheFull { gtid, error }
        }
        (error, _) => error.into(),
    }
}

/// Resolves when there is something to acknowledge.
async fn ready(acknowledger: Option<&Acknowledger>) -> Result<(), Fault> {
    match acknowledger {
        Some(acknowledger) => Ok(acknowledger.ready().await?),
        None => std::future::pending().await,
    }
}
