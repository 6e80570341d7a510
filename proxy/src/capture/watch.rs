//! What an upstream is asked beside its dump, on a connection of its own: whether an idle dump is still that of its binlog, how long
//! it keeps that, and whether its commits wait for us.
//!
//! After RESET MASTER a MariaDB 10.11 leaves a running dump at the end of the removed file: heartbeats go on, and nothing that is
//! committed from then on is sent (observed).
//!
//! The dump is read meanwhile: an upstream whose commits wait for an acknowledgement may hold locks that its answer needs.

use std::future;
use std::pin::Pin;
use std::time::Duration;

use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{self, Gtid};
use tokio::time::Instant;

use super::Context;
use super::connection::{Connection, Row};
use super::fault::Fault;
use super::semi_sync;
use crate::source::Retention;

/// How often settings are asked for.
const SETTINGS_EVERY: Duration = Duration::from_secs(60);

/// What an idle upstream and the log have: one GTID a domain, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    theirs: Vec<Gtid>,
    ours: Vec<Gtid>,
}

/// See the module's description.
pub(super) struct Watch<'a> {
    context: &'a Context,
    control: Option<Connection>,
    asking: Option<Asking<'a>>,
    /// When settings are asked for next.
    settings_at: Instant,
    /// Events have arrived since the question was asked.
    disturbed: bool,
    /// What differed at the last heartbeat.
    seen: Option<Difference>,
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<(Connection, Answer), Fault>> + 'a>>;

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// `@@gtid_binlog_pos`.
    position: Option<String>,
    settings: Option<Settings>,
}

#[derive(Debug)]
struct Settings {
    rows: Vec<Row>,
    /// Unix seconds.
    now: String,
}

impl<'a> Watch<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self {
            context,
            control: None,
            asking: None,
            settings_at: Instant::now(),
            disturbed: false,
            seen: None,
        }
    }

    /// An event arrived: whatever differed may have been on its way.
    pub(super) fn not_idle(&mut self) {
        (self.disturbed, self.seen) = (true, None);
    }

    /// At a heartbeat, when all that was received is in the log: asks where the upstream is.
    pub(super) fn heartbeat(&mut self) {
        if self.asking.is_none() {
            self.disturbed = false;
            self.ask(true);
        }
    }

    /// While events arrive: asks for the settings when it is time.
    pub(super) fn streaming(&mut self) {
        if self.asking.is_none() && self.settings_at <= Instant::now() {
            self.ask(false);
        }
    }

    fn ask(&mut self, position: bool) {
        let now = Instant::now();
        let settings = self.settings_at <= now;
        if settings {
            self.settings_at = now + SETTINGS_EVERY;
        }
        let control = self.control.take();
        self.asking = Some(Box::pin(ask(self.context, control, position, settings)));
    }

    /// Resolves when a question is answered.
    pub(super) async fn answered(&mut self) -> Answer {
        let Some(asking) = &mut self.asking else { return future::pending().await };
        let answered = asking.await;
        self.asking = None;
        match answered {
            Ok((control, answer)) => {
                self.control = Some(control);
                answer
            }
            Err(error) => {
                let source = self.context.upstream.name();
                tracing::debug!(source, %error, "the upstream does not answer beside its dump");
                Answer::default()
            }
        }
    }

    /// What follows from an answer. Tells what differs, where it did at the heartbeat before: the dump has sent nothing of it meanwhile.
    pub(super) fn conclude(&mut self, answer: &Answer) -> Option<Difference> {
        let Context { upstream, options, log, .. } = self.context;
        if let Some(settings) = &answer.settings {
            upstream.set_retention(settings.retention());
            if let Some(setting) = settings.get(semi_sync::UPSTREAM_SETTING) {
                semi_sync::note_setting(self.context, Some(setting));
            }
        }
        if self.disturbed {
            return None;
        }
        let theirs =
            sorted(&options.domains, &mariadb::parse_list(answer.position.as_ref()?).ok()?);
        let ours = sorted(&options.domains, &log.gtid_state().position());
        if theirs == ours {
            upstream.lacks_nothing();
        }
        let found = (theirs != ours).then_some(Difference { theirs, ours });
        let stays = found.is_some() && self.seen == found;
        self.seen = found;
        self.seen.clone().filter(|_| stays)
    }
}

async fn ask(
    context: &Context,
    control: Option<Connection>,
    position: bool,
    settings: bool,
) -> Result<(Connection, Answer), Fault> {
    let mut control = match control {
        Some(control) => control,
        None => super::session::connect(context).await?,
    };
    let mut answer = Answer::default();
    if position {
        let text = control.query_value("SELECT @@GLOBAL.gtid_binlog_pos").await?;
        answer.position = Some(text);
    }
    if settings {
        let rows = control.query(SETTINGS).await?;
        let now = control.query_value("SELECT UNIX_TIMESTAMP()").await?;
        answer.settings = Some(Settings { rows, now });
    }
    Ok((control, answer))
}

const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days', 'rpl_semi_sync_master_enabled')";

impl Settings {
    fn get(&self, name: &str) -> Option<&str> {
        let row = self
            .rows
            .iter()
            .find(|row| row.first().is_some_and(|found| found.as_deref() == Some(name)))?;
        row.get(1)?.as_deref()
    }

    fn retention(&self) -> Option<Retention> {
        Some(Retention::new(self.keeps()?, self.now.parse().ok()?))
    }

    /// How long files are kept; `None` is for ever, or not told.
    fn keeps(&self) -> Option<Duration> {
        const DAY: f64 = 86_400.0;
        let number = |name| self.get(name).and_then(|text| text.parse::<f64>().ok());
        let seconds = number("binlog_expire_logs_seconds").filter(|seconds| *seconds > 0.0);
        let seconds = seconds.or_else(|| number("expire_logs_days").map(|days| days * DAY))?;
        Duration::try_from_secs_f64(seconds).ok().filter(|keeps| !keeps.is_zero())
    }
}

fn sorted(domains: &Domains, list: &[Gtid]) -> Vec<Gtid> {
    let mut list = domains.of_list(list);
    list.sort_unstable_by_key(|gtid| (gtid.domain, gtid.server, gtid.sequence));
    list
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [theirs, ours] = [&self.theirs, &self.ours].map(|list| mariadb::print_list(list));
        write!(f, "it is at [{theirs}], the log at [{ours}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_say_how_long_files_are_kept_are_understood() {
        let settings = |pairs: &[(&str, &str)]| Settings {
            rows: pairs
                .iter()
                .map(|(name, value)| vec![Some((*name).to_owned()), Some((*value).to_owned())])
                .collect(),
            now: "1700000000".into(),
        };
        let (seconds, days) = ("binlog_expire_logs_seconds", "expire_logs_days");
        let kept = |seconds| Some(Duration::from_secs(seconds));
        for (pairs, expected) in [
            (vec![], None),
            (vec![(seconds, "0"), (days, "0.000000")], None),
            (vec![(seconds, "3600"), (days, "0.041667")], kept(3600)),
            (vec![(days, "10")], kept(864_000)),
            (vec![(days, "-1")], None),
            (vec![(days, "text")], None),
        ] {
            assert_eq!(settings(&pairs).keeps(), expected, "{pairs:?}");
        }
    }
}
