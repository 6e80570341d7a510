//! All `[[source]]` of a file: what holds between them.

use super::fault::Fault;
use super::section::Section;
use super::source::{self, Capture, Source};

/// Reads them, in the file's order.
pub(super) fn read(sections: Vec<Section<'_>>) -> Result<Vec<Source>, Fault> {
    let mut known: Vec<(Section<'_>, Source)> = Vec::new();
    for mut section in sections {
        let source = source::read(&mut section)?;
        let conflict = known.iter().find_map(|(_, other)| conflict(other, &source));
        if let Some(sentence) = conflict {
            return Err(section.fault(sentence));
        }
        known.push((section, source));
    }
    require_domains(&known)?;
    if known.is_empty() {
        let sentence =
            "[[source]] is missing: name the upstream with `servers`, `user` and `password`";
        return Err(Fault::new(sentence.to_owned()));
    }
    Ok(known.into_iter().map(|(_, source)| source).collect())
}

/// Why `new` cannot be there beside `other`.
fn conflict(other: &Source, new: &Source) -> Option<String> {
    let (first, second) = (&other.name, &new.name);
    if first == second {
        return Some(format!(
            "`source.name = {first:?}` is there twice: give each [[source]] its own"
        ));
    }
    let captures = (other.capture.as_ref()?, new.capture.as_ref()?);
    if let Some(domain) = shared_domain(captures) {
        return Some(format!(
            "`source.gtid_domains` of {first} and {second} both have {domain}: a domain is recorded from one source"
        ));
    }
    // The server ends the older of two dumps with one server id.
    (other.server == new.server).then(|| {
        format!(
            "{first} and {second} are both captured from {}: name all domains in one [[source]]",
            new.server
        )
    })
}

fn shared_domain((one, other): (&Capture, &Capture)) -> Option<u32> {
    let (one, other) = (one.gtid_domains.as_ref()?, other.gtid_domains.as_ref()?);
    one.intersection(other).next().copied()
}

/// With more than one source nobody else can tell whose a domain is: each server may have old transactions of the others'.
fn require_domains(sources: &[(Section<'_>, Source)]) -> Result<(), Fault> {
    let captured = || {
        sources
            .iter()
            .filter_map(|(section, source)| Some((section, source, source.capture.as_ref()?)))
    };
    if captured().count() < 2 {
        return Ok(());
    }
    match captured().find(|(_, _, capture)| capture.gtid_domains.is_none()) {
        None => Ok(()),
        Some((section, source, _)) => Err(section.fault(format!(
            "`source.gtid_domains` of {} is missing: with more than one captured source each names its own domains, as in [0]",
            source.name
        ))),
    }
}
