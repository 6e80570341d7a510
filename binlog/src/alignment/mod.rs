//! Whether what a source sends goes on where the log ends. A source is asked for the log's last transaction once more, and what
//! it sends is matched against the log: what is the same is skipped, what is behind the last is new, and anything else is another
//! history. The same are equal bytes, and what a replica makes of them when it logs them anew ([`content`]).
//!
//! A GTID alone proves nothing: after RESET MASTER, a fail-over, or a restored backup a server has other transactions under the
//! same numbers. Nor do numbers tell an order: with `gtid_strict_mode` off they go back, and a server asked for what follows
//! `0-1-3` begins behind the first of that name (observed on MariaDB 10.11). So a source may send an older stretch of the log
//! again; it is followed, each domain by itself, up to the log's last transaction.

mod content;
mod groups;
mod same;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::gtid::Domains;
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::gtid_index::Span;
use crate::log::Log;
use crate::reader::ReadError;
use crate::transaction::group::GroupError;
use crate::transaction::{Transaction, TransactionError};
use groups::{Group, Groups};

/// The log cannot be compared with.
#[derive(Debug, thiserror::Error)]
pub enum AlignError {
    /// It cannot be read.
    #[error("cannot read the log's last transactions: {0}")]
    Read(#[from] ReadError),
    /// Its events do not form transactions.
    #[error("cannot read the log's last transactions: {file} at position {position}: {fault}")]
    Group {
        /// The file.
        file: String,
        /// Where the event starts.
        position: u64,
        /// What is wrong there.
        fault: GroupError,
    },
    /// Neither side could be put together anew.
    #[error("cannot compare with the log: {0}")]
    Transaction(#[from] TransactionError),
    /// The cache file of what was sent cannot be read.
    #[error("cannot read a transaction's cache file: {0}")]
    Cache(#[from] std::io::Error),
}

/// What to do with a transaction that a source sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is new.
    Append,
    /// The log has it.
    Skip,
    /// The source has another history.
    Diverged(Divergence),
}

/// Where two histories part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// What the source sent: a GTID, and Unix seconds.
    pub sent: (Gtid, u32),
    /// What the log has: the same, then file and position. Of the same GTID where there is one, else the log's last.
    pub recorded: (Gtid, u32, String, u64),
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((sent, sent_at), (recorded, at, file, position)) = (&self.sent, &self.recorded);
        write!(f, "it sends {sent} of Unix time {sent_at}, ")?;
        if sent == recorded {
            write!(f, "the log has another {recorded}, of {at}, in {file} at {position}")
        } else {
            write!(
                f,
                "which the log has not; the log's last transaction is {recorded} of {at}, in {file} at {position}"
            )
        }
    }
}

/// How a transaction is compared with one of the log.
type Same = fn(&Arc<Log>, &Transaction, &Group) -> Result<bool, AlignError>;

/// What a log has of a transaction.
enum Found {
    /// The same one.
    Same,
    /// The first of its GTID, where there is one.
    Other(Option<Group>),
}

/// Matches what one source sends against the end of the log. See the module's description.
#[derive(Debug)]
pub struct Alignment {
    log: Arc<Log>,
    domains: Domains,
    position: Vec<Gtid>,
    /// The last transaction of each domain that the source has to send once more, until it has.
    owed: BTreeMap<u32, Group>,
    /// Where each domain is that the source began to send again from further back.
    walks: HashMap<u32, Groups>,
}

impl Alignment {
    /// With the last transaction of `domains` in the log. `source` is the source's own GTID state (`@@gtid_binlog_state`): it
    /// tells which positions the source accepts. Nothing of the domains may be submitted meanwhile.
    ///
    /// # Errors
    /// [`AlignError`].
    pub fn with_last(
        log: &Arc<Log>,
        domains: &Domains,
        source: &GtidState,
    ) -> Result<Self, AlignError> {
        let last = groups::last(log, domains)?;
        last.map_or_else(
            || Ok(Self::behind_last(log, domains)),
            |last| Self::with(log, domains, source, last, Vec::new()),
        )
    }

    /// As [`Alignment::with_last`], and with the last transaction of each other domain that stands in the last 64 MiB of the log
    /// before that: what is further back, a source would have to look for for long.
    ///
    /// # Errors
    /// [`AlignError`].
    pub fn with_last_of_each(
        log: &Arc<Log>,
        domains: &Domains,
        source: &GtidState,
    ) -> Result<Self, AlignError> {
        let Some(last) = groups::last(log, domains)? else {
            return Ok(Self::behind_last(log, domains));
        };
        let others = groups::last_of_each(log, domains, &last.0)?;
        Self::with(log, domains, source, last, others)
    }

    fn with(
        log: &Arc<Log>,
        domains: &Domains,
        source: &GtidState,
        (last, before): (Group, GtidState),
        others: Vec<(Group, GtidState)>,
    ) -> Result<Self, AlignError> {
        let mut state = domains.of_state(&before);
        let mut owed = BTreeMap::from([(last.gtid.domain, last.clone())]);
        for (group, before) in others {
            state = state.with_domain(group.gtid.domain, &before);
            owed.insert(group.gtid.domain, group);
        }
        let position = state.position().into_iter();
        let position = position
            .map(|gtid| accepted(log, source, gtid, owed.get(&gtid.domain).unwrap_or(&last)))
            .collect::<Result<Vec<_>, _>>()?;
        let position = position.into_iter().flatten().collect();
        Ok(Self { position, owed, ..Self::behind_last(log, domains) })
    }

    /// Takes the source at its word: it goes on behind the log's last transactions, which it no longer has.
    pub fn behind_last(log: &Arc<Log>, domains: &Domains) -> Self {
        Self {
            log: Arc::clone(log),
            domains: domains.clone(),
            position: domains.of_state(&log.gtid_state()).position(),
            owed: BTreeMap::new(),
            walks: HashMap::new(),
        }
    }

    /// Takes the source at its word for one domain.
    pub fn go_behind_last_of(&mut self, domain: u32) {
        self.owed.remove(&domain);
        self.position.retain(|gtid| gtid.domain != domain);
        self.position.extend(self.log.gtid_state().latest(domain));
    }

    /// Where to attach, one GTID a domain: what the source sends from here on is to be offered.
    pub fn position(&self) -> &[Gtid] {
        &self.position
    }

    /// A last transaction of the log that the source has not sent yet.
    pub fn owed(&self) -> Option<Gtid> {
        self.all_owed().next()
    }

    /// The last transactions of the log that the source has not sent yet, one a domain.
    pub fn all_owed(&self) -> impl Iterator<Item = Gtid> {
        self.owed.values().map(|last| last.gtid)
    }

    /// Those of them that stand at a place in the log or before it.
    pub fn owed_up_to(&self, file: u64, position: u64) -> Vec<Gtid> {
        let before = self.owed.values().filter(|last| (last.file, last.start) <= (file, position));
        before.map(|last| last.gtid).collect()
    }

    /// Takes the source's next transaction.
    ///
    /// # Errors
    /// [`AlignError`].
    pub fn offer(&mut self, transaction: &Transaction) -> Result<Offer, AlignError> {
        let Some((_, any)) = self.owed.last_key_value() else { return Ok(Offer::Append) };
        let (any, domain) = (any.clone(), transaction.gtid().domain);
        let owed = self.owed.get(&domain).cloned();
        let mut other = match self.walks.get_mut(&domain) {
            Some(walk) => match walk.next()? {
                Some((group, _)) if same::is_same(&self.log, transaction, &group)? => {
                    return Ok(self.skip(&group));
                }
                next => next.map(|(group, _)| group),
            },
            None => None,
        };
        // Equal bytes tell more than the same content, which one number may have had twice.
        for is_same in [same::is_equal, same::is_same] {
            if let Some(owed) = &owed
                && is_same(&self.log, transaction, owed)?
            {
                return Ok(self.skip(owed));
            }
            if !self.walks.contains_key(&domain) {
                match self.find(transaction, is_same)? {
                    Found::Same => return Ok(Offer::Skip),
                    Found::Other(named) => other = other.or(named),
                }
            }
        }
        Ok(self.diverged(transaction, &other.or(owed).unwrap_or(any)))
    }

    /// The log has it. Behind the last of its domain everything is new.
    fn skip(&mut self, group: &Group) -> Offer {
        if self.owed.get(&group.gtid.domain) == Some(group) {
            self.owed.remove(&group.gtid.domain);
            self.walks.remove(&group.gtid.domain);
        }
        Offer::Skip
    }

    /// The first transaction of the log that is this one; its domain is followed from there on.
    fn find(&mut self, transaction: &Transaction, is_same: Same) -> Result<Found, AlignError> {
        let (log, gtid, mut named) = (&self.log, transaction.gtid(), None);
        let domain = Domains::only([gtid.domain]);
        let found = Groups::find(
            log,
            &domain,
            |span| span.may_hold(gtid),
            |group| {
                if group.gtid != gtid {
                    return Ok(None);
                }
                let is_it = is_same(log, transaction, &group)?;
                named.get_or_insert(group);
                Ok(is_it.then_some(()))
            },
        )?;
        Ok(match found {
            Some(((), walk)) => {
                self.walks.insert(gtid.domain, walk);
                Found::Same
            }
            None => Found::Other(named),
        })
    }

    fn diverged(&self, transaction: &Transaction, group: &Group) -> Offer {
        let recorded = (group.gtid, group.time, group.name(&self.log), group.start);
        let sent = (transaction.gtid(), transaction.time());
        debug_assert!(self.domains.contains(sent.0.domain), "a source's own domains only");
        Offer::Diverged(Divergence { sent, recorded })
    }
}

/// A position that the source accepts, at or before this one. A MariaDB refuses a GTID with a higher number than the last that it
/// has of that server: where numbers went back, also one that is in its binlog (observed on 10.11). Then it is the latest in the
/// log, before the last transaction, that it does not refuse; none where it would refuse them all.
fn accepted(
    log: &Log,
    source: &GtidState,
    gtid: Gtid,
    last: &Group,
) -> Result<Option<Gtid>, AlignError> {
    let highest = |server| source.last_of(gtid.domain, server).map(|known| known.sequence);
    let accepts = |gtid: Gtid| highest(gtid.server).is_some_and(|last| gtid.sequence <= last);
    if source.latest(gtid.domain).is_none() || accepts(gtid) {
        return Ok(Some(gtid));
    }
    let may_be = |span: &Span| {
        span.domain == gtid.domain && highest(span.server).is_some_and(|last| span.min <= last)
    };
    let is_before = |group: &Group| (group.file, group.start) < (last.file, last.start);
    groups::find_last(log, &Domains::only([gtid.domain]), may_be, |group| {
        accepts(group.gtid) && is_before(group)
    })
}

#[cfg(test)]
mod tests;
