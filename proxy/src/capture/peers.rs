//! What the captures of one log know of each other: whether all have caught up, who records which domain, and whether their
//! events may stand in one file.

use std::sync::{Arc, Mutex, PoisonError};

use spillway_binlog::event::FormatDescription;
use spillway_binlog::gtid::Domains;

/// The sources captured into one log. Each asks under its own name.
#[derive(Debug)]
pub(crate) struct Peers(Mutex<Vec<Peer>>);

#[derive(Debug)]
struct Peer {
    name: String,
    domains: Domains,
    /// Whether the log has what the source had when its first session began.
    caught_up: bool,
    /// That of the source's last session.
    format: Option<Arc<FormatDescription>>,
    /// Whether that session was let in.
    admitted: bool,
}

impl Peers {
    pub(super) fn new(sources: impl IntoIterator<Item = (String, Domains)>) -> Self {
        let peer = |(name, domains)| Peer {
            name,
            domains,
            caught_up: false,
            format: None,
            admitted: false,
        };
        Self(Mutex::new(sources.into_iter().map(peer).collect()))
    }

    pub(super) fn are_several(&self) -> bool {
        self.lock().len() > 1
    }

    /// Whether any source records this domain.
    pub(super) fn record(&self, domain: u32) -> bool {
        self.lock().iter().any(|peer| peer.domains.contains(domain))
    }

    pub(super) fn is_caught_up(&self, name: &str) -> bool {
        self.lock().iter().any(|peer| peer.name == name && peer.caught_up)
    }

    /// The source has caught up; answers whether now all have.
    pub(super) fn note_caught_up(&self, name: &str) -> bool {
        let mut peers = self.lock();
        peers.iter_mut().filter(|peer| peer.name == name).for_each(|peer| peer.caught_up = true);
        peers.iter().all(|peer| peer.caught_up)
    }

    /// Lets a source in whose events are of the same class as those of the sources let in before. Were it of another, each
    /// transaction that follows one of another source would start a new file.
    ///
    /// # Errors
    /// A sentence that names the other source. What this one shows is remembered all the same: a source that has been upgraded does
    /// not stand in the way of the next that is.
    pub(super) fn admit(&self, name: &str, format: &Arc<FormatDescription>) -> Result<(), String> {
        let mut peers = self.lock();
        let other = peers.iter().filter(|peer| peer.name != name && peer.admitted);
        let refusal = other.filter_map(|peer| peer.refusal_of(format)).next();
        for peer in peers.iter_mut().filter(|peer| peer.name == name) {
            peer.format = Some(Arc::clone(format));
            peer.admitted = refusal.is_none();
        }
        refusal.map_or(Ok(()), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Peer>> {
        // Each change is a plain assignment: a panic cannot leave one half made.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    fn refusal_of(&self, format: &FormatDescription) -> Option<String> {
        let own = self.format.as_ref().filter(|own| !own.same_class(format))?;
        Some(format!(
            "the upstream is {}, and source {} is {}: events of both cannot stand in one log file; bring both to one MariaDB \
             series, or record this one with a Spillway of its own",
            format.server_version, self.name, own.server_version
        ))
    }
}

#[cfg(test)]
mod tests {
    use spillway_binlog::event::ChecksumAlgorithm;

    use super::*;

    fn two() -> Peers {
        Peers::new([("a".into(), Domains::only([1])), ("b".into(), Domains::only([2, 3]))])
    }

    fn format(version: &str) -> Arc<FormatDescription> {
        Arc::new(FormatDescription {
            server_version: version.into(),
            created: 0,
            post_header_lengths: vec![0; 171],
            checksum: ChecksumAlgorithm::Crc32,
        })
    }

    #[test]
    fn all_must_have_caught_up() {
        let peers = two();
        assert!(!peers.note_caught_up("b"));
        assert!(!peers.note_caught_up("b"));
        assert!(peers.is_caught_up("b") && !peers.is_caught_up("a"));
        assert!(peers.note_caught_up("a"));
        assert!(Peers::new([("alone".into(), Domains::all())]).note_caught_up("alone"));
    }

    #[test]
    fn a_domain_of_any_source_is_recorded() {
        let peers = two();
        let recorded: Vec<_> = (0..5).filter(|domain| peers.record(*domain)).collect();
        assert_eq!(recorded, [1, 2, 3]);
    }

    #[test]
    fn a_source_of_another_class_waits_until_the_others_are_of_its() {
        let (old, newer) = (format("10.11.19-MariaDB-log"), format("11.8.9-MariaDB-log"));
        let peers = two();
        peers.admit("a", &old).unwrap();
        peers.admit("b", &format("10.11.2-MariaDB")).unwrap();
        // One upgraded in place waits for the other.
        let refusal = peers.admit("a", &newer).unwrap_err();
        assert!(
            refusal.contains("is 11.8.9-MariaDB-log, and source b is 10.11.2-MariaDB"),
            "{refusal}"
        );
        peers.admit("b", &newer).unwrap();
        peers.admit("a", &newer).unwrap();
        assert!(peers.admit("b", &old).is_err());
    }

    #[test]
    fn a_source_alone_may_be_of_any_class() {
        let peers = Peers::new([("a".into(), Domains::all())]);
        peers.admit("a", &format("10.11.19-MariaDB-log")).unwrap();
        peers.admit("a", &format("11.8.9-MariaDB-log")).unwrap();
    }
}
