//! Follows a connection by packet headers and first bytes: which command is out, and where its reply ends. No I/O, no clock, no
//! allocation on the way; state of a fixed size, but for commands sent ahead of their replies.
//!
//! It is fed with the bytes of both directions in the order in which they pass, in pieces of any size, from the client's login
//! on. It never changes or holds a byte. During the login a fault is an error of the connection. After it, what does not fit
//! makes the follower let go: bytes pass, and nothing is claimed about them any more.

mod command;
mod framing;
mod reply;
mod state;

pub use command::Command;
use framing::Framer;
use state::{MAX_PIPELINED, State};

/// What the bytes meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet of the authentication dialogue passed.
    LoginStep(Side),
    /// The server let the client in.
    LoggedIn,
    /// The server refused the client.
    LoginRefused {
        /// The server's error number.
        code: u16,
    },
    /// The client sent a command.
    Command(Command),
    /// The reply to the oldest unanswered command has ended.
    Reply {
        /// That command.
        command: Command,
        /// The server status after it: that of the packet that ended the reply, or the last one known.
        status: u16,
        /// The error number, when the reply ended with an ERR.
        error: Option<u16>,
    },
    /// A packet of the authentication dialogue, or of that of a COM_CHANGE_USER, in which the server asks for the password itself
    /// (caching_sha2_password).
    PasswordAsked,
    /// The server sent an error that nobody asked for, as before it closes an idle connection.
    ServerError {
        /// The server's error number.
        code: u16,
    },
    /// The client asked for a stream of events: nothing more is followed, as there is no reply to end.
    Streaming,
    /// From here on nothing is followed.
    Lost(Fault),
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The app.
    Client,
    /// The upstream server.
    Server,
}

impl Side {
    fn noun(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Something that does not fit the protocol as it is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A packet has another number than its place in the exchange says.
    #[error("{} packet has sequence number {found}, expected {expected}", .side.noun())]
    Sequence {
        /// Who sent it.
        side: Side,
        /// What is due.
        expected: u8,
        /// What was there.
        found: u8,
    },
    /// A packet of a reply that cannot stand where it stands.
    #[error("server sent {what} in reply to {command}")]
    Reply {
        /// The command it should answer.
        command: Command,
        /// What was wrong.
        what: &'static str,
    },
    /// The server sent something while nothing was asked.
    #[error("server sent a packet without a command to answer")]
    Unasked,
    /// A command whose reply is not known here.
    #[error("client sent {0}, which is not followed")]
    UnknownCommand(Command),
    /// Commands were sent behind one whose reply depends on what the client sends next.
    #[error("client sent commands behind {0} before it was answered")]
    Overtaken(Command),
    /// Too many commands ahead of their replies.
    #[error("client sent more than {MAX_PIPELINED} commands ahead of their replies")]
    Pipelined,
}

/// The follower of one connection.
#[derive(Clone, Debug)]
pub struct Follower {
    client: Framer,
    server: Framer,
    state: State,
}

impl Follower {
    /// Starts behind the client's login packet, whose sequence number was `login_sequence`. `capabilities` are those that
    /// greeting and login have in common.
    pub fn new(capabilities: u64, login_sequence: u8) -> Self {
        let state = State::new(capabilities, login_sequence);
        Self { client: Framer::default(), server: Framer::default(), state }
    }

    /// Takes bytes on their way to the server. `sink` gets each event with the number of bytes up to the end of its packet.
    pub fn client_bytes(&mut self, bytes: &[u8], sink: &mut impl FnMut(usize, Event)) {
        let mut rest = bytes;
        while self.state.is_following() {
            let Some(packet) = self.client.next(&mut rest) else { return };
            let end = bytes.len() - rest.len();
            self.state.client_packet(packet, &mut |event| sink(end, event));
        }
    }

    /// Takes bytes on their way to the client, as [`Self::client_bytes`].
    pub fn server_bytes(&mut self, bytes: &[u8], sink: &mut impl FnMut(usize, Event)) {
        let mut rest = bytes;
        while self.state.is_following() {
            let Some(packet) = self.server.next(&mut rest) else { return };
            let end = bytes.len() - rest.len();
            self.state.server_packet(packet, &mut |event| sink(end, event));
        }
    }

    /// Whether the authentication dialogue is still going on.
    pub fn is_in_login(&self) -> bool {
        self.state.is_in_login()
    }

    /// Whether nothing is under way: no command unanswered, none half sent, no transaction open. Never true once let go.
    pub fn is_idle(&self) -> bool {
        self.is_between_commands() && !self.state.is_in_transaction()
    }

    /// As [`Self::is_idle`], but a transaction may be open.
    pub fn is_between_commands(&self) -> bool {
        self.state.is_between_commands() && self.client.at_boundary() && self.server.at_boundary()
    }

    /// Whether the client reads events and waits for no reply.
    pub fn is_streaming(&self) -> bool {
        self.state.is_streaming()
    }

    /// Whether the client has said that it leaves.
    pub fn has_quit(&self) -> bool {
        self.state.has_quit()
    }

    /// The sequence number a packet made up here would need to be read as the reply, or the rest of the reply, that the client
    /// waits for. `None` when it waits for none, when the server is within a packet, or when nothing is known.
    pub fn awaited_sequence(&self) -> Option<u8> {
        if !self.server.at_boundary() {
            return None;
        }
        let behind_half = self.client.unfinished().map(|header| header.sequence.wrapping_add(1));
        self.state.awaited_sequence(behind_half)
    }
}

#[cfg(test)]
mod tests;
