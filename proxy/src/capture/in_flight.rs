//! What was handed to the log and is not known to be written, under a byte bound.

use std::collections::VecDeque;

use spillway_binlog::Ticket;

/// A ticket is kept for about this many bytes.
const TICKET_EVERY: u64 = 1 << 20;

/// What the log has not told to be written yet.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// A ticket, and the bytes handed over since the one before it.
    tickets: VecDeque<(Ticket, u64)>,
    pub(super) bytes: u64,
}

impl InFlight {
    pub(super) fn add(&mut self, ticket: Ticket, bytes: u64) {
        self.bytes += bytes;
        match self.tickets.back_mut() {
            Some((last, sum)) if *sum < TICKET_EVERY => {
                *last = ticket;
                *sum += bytes;
            }
            _ => self.tickets.push_back((ticket, bytes)),
        }
    }

    /// The oldest ticket still to be waited for while `limit` bytes or more are in flight.
    pub(super) fn oldest(&mut self, limit: u64) -> Option<Ticket> {
        while let Some((ticket, bytes)) = self.tickets.front() {
            if !ticket.is_written() {
                break;
            }
            self.bytes -= bytes;
            self.tickets.pop_front();
        }
        let (ticket, _) = self.tickets.front()?;
        (self.bytes >= limit).then(|| ticket.clone())
    }
}
