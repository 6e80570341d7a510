//! Commands out and replies in: a state machine over the packets of both directions.

use std::collections::VecDeque;

use super::command::{Command, ReplyKind};
use super::framing::Packet;
use super::reply::{Expect, Outcome, ReplyPacket};
use super::{Event, Fault, Side};
use crate::wire::reply::{EOF, ERR, status};

/// Commands sent ahead of their replies; a client with more of them is no longer followed. One takes two bytes.
pub(super) const MAX_PIPELINED: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The authentication dialogue at the start.
    Login,
    /// Commands and replies.
    Commands,
    /// A stream of events.
    Streaming,
    /// The server has said that it closes the connection.
    Ended,
    /// Let go.
    Lost,
}

/// caching_sha2_password: the server wants the password itself.
const FULL_AUTHENTICATION: [u8; 2] = [1, 4];
/// How a switch to that plugin begins.
const SWITCH_TO_SHA2: &[u8] = b"\xfecaching_sha2_passwo";

/// A command that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    command: Command,
    /// The sequence number of the next packet in it, whoever sends that.
    next: u8,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    capabilities: u64,
    phase: Phase,
    /// Unanswered commands, oldest first.
    exchanges: VecDeque<Exchange>,
    /// What comes next in the reply to the oldest.
    expect: Expect,
    /// The last server status seen.
    status: u16,
    /// The client is sending a file, up to an empty packet.
    in_file: bool,
    /// The client's last packet belongs to the newest exchange, and so do those that continue it.
    in_exchange: bool,
    /// The authentication dialogue may be that of caching_sha2_password: the server has switched to no other plugin.
    maybe_sha2: bool,
    quit: bool,
}

impl State {
    pub(super) fn new(capabilities: u64, login_sequence: u8) -> Self {
        // COM_CHANGE_USER is a login again, so the dialogue of the first login can stand as one.
        let next = login_sequence.wrapping_add(1);
        let login = Exchange { command: Command::CHANGE_USER, next };
        Self {
            capabilities,
            phase: Phase::Login,
            exchanges: VecDeque::from([login]),
            expect: Expect::First,
            status: 0,
            in_file: false,
            in_exchange: false,
            maybe_sha2: true,
            quit: false,
        }
    }

    /// Whether packets still have to be looked at.
    pub(super) fn is_following(&self) -> bool {
        matches!(self.phase, Phase::Login | Phase::Commands)
    }

    pub(super) fn is_in_login(&self) -> bool {
        self.phase == Phase::Login
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.phase == Phase::Streaming
    }

    pub(super) fn is_between_commands(&self) -> bool {
        match self.phase {
            Phase::Commands => self.exchanges.is_empty() && !self.in_file,
            Phase::Ended => true,
            Phase::Login | Phase::Streaming | Phase::Lost => false,
        }
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.status & (status::IN_TRANSACTION | status::IN_TRANSACTION_READONLY) != 0
    }

    pub(super) fn has_quit(&self) -> bool {
        self.quit
    }

    /// The next number of the oldest exchange. `behind_half` is the one behind a packet that the client has half sent: it counts
    /// when that packet is a command, or the next of this exchange.
    pub(super) fn awaited_sequence(&self, behind_half: Option<u8>) -> Option<u8> {
        match self.exchanges.front() {
            _ if !self.is_following() => None,
            Some(Exchange { next, .. }) if behind_half != Some(next.wrapping_add(1)) => Some(*next),
            _ => behind_half,
        }
    }

    pub(super) fn client_packet(&mut self, packet: Packet<'_>, emit: &mut impl FnMut(Event)) {
        let sequence = packet.header.sequence;
        let result = if packet.continued {
            self.continued(sequence)
        } else if self.in_file {
            self.in_file = packet.header.length > 0;
            self.exchange_goes_on(Side::Client, sequence)
        } else if self.phase == Phase::Login || (sequence != 0 && self.is_in_dialogue()) {
            self.dialogue_step(sequence, emit)
        } else {
            self.command(packet, emit)
        };
        if let Err(fault) = result {
            self.let_go(fault, emit);
        }
    }

    pub(super) fn server_packet(&mut self, packet: Packet<'_>, emit: &mut impl FnMut(Event)) {
        if let Err(fault) = self.reply_packet(packet, emit) {
            self.let_go(fault, emit);
        }
    }

    fn let_go(&mut self, fault: Fault, emit: &mut impl FnMut(Event)) {
        self.phase = Phase::Lost;
        self.exchanges = VecDeque::new();
        emit(Event::Lost(fault));
    }

    /// More of a payload of 16 MiB and more.
    fn continued(&mut self, sequence: u8) -> Result<(), Fault> {
        match self.exchanges.back_mut() {
            Some(newest) if self.in_exchange => newest.advance(Side::Client, sequence),
            // Of a command without a reply, or with one that came early.
            _ => Ok(()),
        }
    }

    fn exchange_goes_on(&mut self, side: Side, sequence: u8) -> Result<(), Fault> {
        self.in_exchange |= side == Side::Client;
        self.exchanges.front_mut().map_or(Ok(()), |exchange| exchange.advance(side, sequence))
    }

    /// Whether what the client sends belongs to an authentication dialogue.
    fn is_in_dialogue(&self) -> bool {
        let newest = self.exchanges.back();
        newest.is_some_and(|exchange| exchange.command.reply_kind() == ReplyKind::Dialogue)
    }

    fn dialogue_step(&mut self, sequence: u8, emit: &mut impl FnMut(Event)) -> Result<(), Fault> {
        if let (Some(oldest), 2..) = (self.exchanges.front(), self.exchanges.len()) {
            return Err(Fault::Overtaken(oldest.command));
        }
        self.exchange_goes_on(Side::Client, sequence)?;
        if self.phase == Phase::Login {
            emit(Event::LoginStep(Side::Client));
        }
        Ok(())
    }

    fn command(&mut self, packet: Packet<'_>, emit: &mut impl FnMut(Event)) -> Result<(), Fault> {
        let found = packet.header.sequence;
        if found != 0 {
            return Err(Fault::Sequence { side: Side::Client, expected: 0, found });
        }
        // Servers take an empty packet for the command 0.
        let command = packet.prefix.first().map_or(Command::SLEEP, |first| Command(*first));
        let kind = command.reply_kind();
        emit(Event::Command(command));
        self.quit |= command == Command::QUIT;
        self.in_exchange = kind != ReplyKind::None;
        match kind {
            ReplyKind::None => Ok(()),
            ReplyKind::Unknown => Err(Fault::UnknownCommand(command)),
            ReplyKind::Stream if !self.exchanges.is_empty() => Err(Fault::Overtaken(command)),
            ReplyKind::Stream => {
                self.phase = Phase::Streaming;
                emit(Event::Streaming);
                Ok(())
            }
            _ if self.exchanges.len() >= MAX_PIPELINED => Err(Fault::Pipelined),
            _ => {
                self.maybe_sha2 |= kind == ReplyKind::Dialogue;
                self.exchanges.push_back(Exchange { command, next: 1 });
                Ok(())
            }
        }
    }

    fn reply_packet(
        &mut self,
        packet: Packet<'_>,
        emit: &mut impl FnMut(Event),
    ) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.front_mut() else {
            return self.unasked(packet, emit);
        };
        exchange.advance(Side::Server, packet.header.sequence)?;
        if packet.continued {
            // What a payload of this size is, its first packet has told.
            return Ok(());
        }
        let command = exchange.command;
        let reply = ReplyPacket { prefix: packet.prefix, length: packet.header.length };
        match self.expect.packet(command, self.capabilities, reply) {
            Outcome::More if command.reply_kind() == ReplyKind::Dialogue => {
                self.dialogue_goes_on(reply, emit);
            }
            Outcome::More => {}
            Outcome::LocalFile => return self.local_file(command),
            Outcome::Done { status, error } => self.reply_ended(command, status, error, emit),
            Outcome::Inconsistent(what) => return Err(Fault::Reply { command, what }),
        }
        Ok(())
    }

    fn dialogue_goes_on(&mut self, reply: ReplyPacket<'_>, emit: &mut impl FnMut(Event)) {
        let exactly = reply.length == FULL_AUTHENTICATION.len();
        if reply.prefix.first() == Some(&EOF) {
            self.maybe_sha2 = reply.prefix.starts_with(SWITCH_TO_SHA2);
        } else if self.maybe_sha2 && exactly && reply.prefix == FULL_AUTHENTICATION {
            return emit(Event::PasswordAsked);
        }
        if self.phase == Phase::Login {
            emit(Event::LoginStep(Side::Server));
        }
    }

    fn local_file(&mut self, command: Command) -> Result<(), Fault> {
        // The server takes whatever comes next for the file.
        if self.exchanges.len() > 1 {
            return Err(Fault::Overtaken(command));
        }
        self.in_file = true;
        Ok(())
    }

    fn reply_ended(
        &mut self,
        command: Command,
        status: Option<u16>,
        error: Option<u16>,
        emit: &mut impl FnMut(Event),
    ) {
        self.expect = Expect::First;
        self.exchanges.pop_front();
        self.status = status.unwrap_or(self.status);
        if self.phase != Phase::Login {
            return emit(Event::Reply { command, status: self.status, error });
        }
        match error {
            None => {
                self.phase = Phase::Commands;
                emit(Event::LoggedIn);
            }
            Some(code) => {
                self.phase = Phase::Ended;
                emit(Event::LoginRefused { code });
            }
        }
    }

    fn unasked(&mut self, packet: Packet<'_>, emit: &mut impl FnMut(Event)) -> Result<(), Fault> {
        match *packet.prefix {
            [ERR, low, high, ..] if !packet.continued => {
                self.phase = Phase::Ended;
                emit(Event::ServerError { code: u16::from_le_bytes([low, high]) });
                Ok(())
            }
            _ => Err(Fault::Unasked),
        }
    }
}

impl Exchange {
    fn advance(&mut self, side: Side, found: u8) -> Result<(), Fault> {
        let expected = self.next;
        if found != expected {
            return Err(Fault::Sequence { side, expected, found });
        }
        self.next = expected.wrapping_add(1);
        Ok(())
    }
}
