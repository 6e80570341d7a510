//! Semi-synchronous replication, as its replica: what the upstream waits for, and when it is told that the log has it.
//!
//! Each packet of such a dump has two more bytes before its event, `ef 00`, or `ef 01` where an acknowledgement is wanted. That is a
//! packet of number 0, `ef | position u64 | file name`: a place in the upstream's binlog, which stands for all before it.

use std::collections::VecDeque;
use std::future;

use spillway_binlog::event::{EventError, EventHeader, EventType, control};
use spillway_binlog::{SubmitError, Ticket};

use super::Context;
use super::connection::Connection;
use super::fault::Fault;
use crate::source::SemiSync;
use crate::wire::WireError;

const MAGIC: u8 = 0xef;
/// Whether the upstream's commits wait, `ON` or `OFF`.
pub(super) const UPSTREAM_SETTING: &str = "rpl_semi_sync_master_enabled";

/// A place in the upstream's binlog: behind an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    file: Vec<u8>,
    position: u64,
}

/// What is to be acknowledged, in the upstream's order.
#[derive(Debug, Default)]
pub(super) struct Acknowledger {
    /// Behind the last event.
    place: Place,
    /// The upstream waits for the transaction at hand.
    asked: bool,
    /// Of the last transaction that was handed to the log.
    handed_over: Option<Ticket>,
    /// Where the upstream waits, and what the log must have first: nothing where it had all before that place already.
    due: VecDeque<(Option<Ticket>, Place)>,
}

/// What a replica says before its dump, where the source is to be semi-synchronous and can be. It says so also where the upstream's
/// setting is off: an upstream that is switched on later waits at once.
pub(super) async fn announce(
    connection: &mut Connection,
    context: &Context,
) -> Result<Option<Acknowledger>, Fault> {
    if !context.options.semi_sync {
        return Ok(None);
    }
    let rows = connection.query(&format!("SHOW VARIABLES LIKE '{UPSTREAM_SETTING}'")).await?;
    let setting = rows.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten();
    note_setting(context, setting.as_deref());
    if setting.is_none() {
        return Ok(None);
    }
    connection.query("SET @rpl_semi_sync_slave = 1").await?;
    Ok(Some(Acknowledger::default()))
}

/// Tells what the upstream's setting means, where it is another than before.
pub(super) fn note_setting(context: &Context, setting: Option<&str>) {
    let semi_sync = match setting {
        Some("ON" | "1") => SemiSync::Active,
        Some(_) => SemiSync::OffAtUpstream,
        None => SemiSync::Unsupported,
    };
    if !context.options.semi_sync || !context.upstream.set_semi_sync(semi_sync) {
        return;
    }
    let source = context.upstream.name();
    match semi_sync.shortcoming() {
        None => tracing::info!(source, "the upstream's commits wait until the log has them"),
        Some(sentence) => tracing::warn!(source, "{sentence}"),
    }
}

impl Acknowledger {
    /// Takes the two bytes off a packet; answers the event, and whether an acknowledgement is wanted.
    pub(super) fn take_prefix<'p>(&mut self, packet: &'p [u8]) -> Result<(&'p [u8], bool), Fault> {
        let fault = "lacks the two bytes of semi-synchronous replication";
        match packet {
            [MAGIC, asked @ (0 | 1), event @ ..] => {
                self.asked |= *asked == 1;
                Ok((event, *asked == 1))
            }
            _ => Err(WireError::Malformed { packet: "event", fault }.into()),
        }
    }

    /// Follows the upstream's binlog; `event` is without its checksum. Headers have the lower half of a position. Format descriptions
    /// and heartbeats are not asked: theirs may lie before what was sent.
    pub(super) fn pass(&mut self, header: &EventHeader, event: &[u8]) -> Result<(), EventError> {
        match header.event_type {
            EventType::ROTATE => {
                let (position, file) = control::parse_rotate(event)?;
                self.place = Place { file: file.to_vec(), position };
            }
            EventType::HEARTBEAT | EventType::FORMAT_DESCRIPTION => {}
            _ => {
                #[allow(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
                let lower = self.place.position as u32;
                // An event of no place in the file has 0, as has one that ends at a multiple of 4 GiB.
                if header.end_position != 0 || lower.wrapping_add(header.event_size) == 0 {
                    let forward = header.end_position.wrapping_sub(lower);
                    self.place.position = self.place.position.saturating_add(forward.into());
                }
            }
        }
        Ok(())
    }

    /// A transaction was handed to the log.
    pub(super) fn handed_over(&mut self, ticket: &Ticket) {
        self.handed_over = Some(ticket.clone());
    }

    /// A transaction is complete, recorded or not: whoever waits for it is owed an answer once the log has all before it.
    pub(super) fn transaction_ends(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.due.push_back((self.handed_over.clone(), self.place.clone()));
        }
    }

    /// The acknowledgement of the last place before which the log has everything, if there is a new one.
    pub(super) fn take_ready(&mut self) -> Option<Vec<u8>> {
        let mut ready = None;
        while let Some((_, place)) =
            self.due.pop_front_if(|(ticket, _)| ticket.as_ref().is_none_or(Ticket::is_committed))
        {
            ready = Some(place);
        }
        let Place { file, position } = ready?;
        Some([&[MAGIC], position.to_le_bytes().as_slice(), &file].concat())
    }

    /// Resolves when there is something to acknowledge.
    pub(super) async fn ready(&self) -> Result<(), SubmitError> {
        match self.due.front() {
            Some((Some(ticket), _)) => ticket.committed().await,
            Some((None, _)) => Ok(()),
            None => future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use spillway_binlog::event::ChecksumAlgorithm;

    use super::*;

    #[test]
    fn a_packet_without_its_two_bytes_is_an_error() {
        let mut acknowledger = Acknowledger::default();
        assert_eq!(acknowledger.take_prefix(&[0xef, 0, 7]).unwrap(), (&[7][..], false));
        assert_eq!(acknowledger.take_prefix(&[0xef, 1]).unwrap(), (&[][..], true));
        for packet in [&[][..], &[0xef], &[0xef, 2, 7], &[0xee, 1, 7]] {
            let fault = acknowledger.take_prefix(packet).unwrap_err();
            assert_eq!(fault.label(), "protocol", "{packet:?}");
        }
    }

    /// The next event, which says that it ends there.
    fn pass(acknowledger: &mut Acknowledger, size: u32, end_position: u32) -> u64 {
        let header = EventHeader {
            event_size: size,
            ..control::artificial(EventType::XID, 1, end_position)
        };
        acknowledger.pass(&header, &[]).unwrap();
        acknowledger.place.position
    }

    #[test]
    fn a_place_is_followed_by_what_rotates_and_headers_say() {
        let mut acknowledger = Acknowledger::default();
        let body = control::rotate_body(u64::from(u32::MAX) - 99, "mbin.000003");
        let header = control::artificial(EventType::ROTATE, 1, 0);
        let rotate = control::event(header, &body, ChecksumAlgorithm::None);
        acknowledger.pass(&EventHeader::parse(&rotate).unwrap(), &rotate).unwrap();
        assert_eq!(acknowledger.place.file, b"mbin.000003");
        // An event of no place, one that ends at 4 GiB, and those behind it; some were not sent.
        assert_eq!(pass(&mut acknowledger, 31, 0), (1 << 32) - 100);
        assert_eq!(pass(&mut acknowledger, 100, 0), 1 << 32);
        assert_eq!(pass(&mut acknowledger, 40, 40), (1 << 32) + 40);
        assert_eq!(pass(&mut acknowledger, 40, 0xffff_fff0), (2 << 32) - 16);
        assert_eq!(pass(&mut acknowledger, 40, 24), (2 << 32) + 24);
    }

    #[test]
    fn what_nobody_waits_for_is_not_acknowledged() {
        let mut acknowledger = Acknowledger::default();
        acknowledger.transaction_ends();
        assert_eq!(acknowledger.take_ready(), None);
        acknowledger.take_prefix(&[0xef, 1]).unwrap();
        acknowledger.transaction_ends();
        assert_eq!(acknowledger.take_ready(), Some(vec![0xef, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(acknowledger.take_ready(), None);
    }
}
