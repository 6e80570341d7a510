//! One client connection, from accept to close.

use std::rc::Rc;
use std::time::Duration;

use spillway_metrics::relay::{Abort, OpenConnection, Refusal};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::drain::Seat;
use super::follower::Follower;
use super::listener::{Admission, Arrival};
use super::login::{self, Greeted, Refused};
use super::pump::{Pump, Stop};
use super::refusal::{
    self, CONNECTION_LOST, LINK_FAILURE, REJECTED, SHUTDOWN, TOO_MANY_CONNECTIONS, UNREACHABLE,
};
use super::worker::Worker;
use crate::wire::reply::ErrPacket;

/// How long an upstream may take to close a connection that its client has closed. It may be in a long statement, which it
/// finishes anyway: nobody waits for the end of it.
const FINISH: Duration = Duration::from_secs(10);

/// Relays one connection.
pub(super) async fn run(worker: Rc<Worker>, arrival: Arrival, seat: Seat) {
    let Arrival { stream, admission, open } = arrival;
    let _guard = Guard { worker: Rc::clone(&worker), _open: open };
    let Ok(mut client) = TcpStream::from_std(stream) else { return };
    let _place = match admission {
        Admission::Admitted(place) => place,
        Admission::TooMany(_place) => {
            refuse(&worker, &mut client, &too_many()).await;
            return;
        }
    };
    match login::connect(&worker).await {
        Ok(greeted) => relay(worker, seat, client, greeted).await,
        Err(refused) => refuse(&worker, &mut client, &refused).await,
    }
}

fn too_many() -> Refused {
    let message = "Too many connections".to_owned();
    Refused::new(Refusal::TooManyConnections, TOO_MANY_CONNECTIONS, REJECTED, message)
}

/// Tells a client that has not been greeted.
async fn refuse(worker: &Worker, client: &mut TcpStream, refused: &Refused) {
    note_refused(worker, refused);
    refusal::instead_of_greeting(worker, client, &refused.error).await;
}

fn note_refused(worker: &Worker, refused: &Refused) {
    let (source, error) = (worker.upstream.name(), &refused.error);
    tracing::debug!(source, %error, "a client was refused");
    worker.metrics.refused(refused.reason);
}

async fn relay(worker: Rc<Worker>, seat: Seat, mut client: TcpStream, greeted: Greeted) {
    let (login, server) = match greeted.login(&worker, &mut client).await {
        Ok(login) => login,
        Err(refused) => {
            note_refused(&worker, &refused);
            return login::tell(&mut client, sequence_of_refusal(refused.reason), &refused).await;
        }
    };
    let follower = Follower::new(login.capabilities, login.sequence);
    drop(login);
    let mut pump = Pump::new(Rc::clone(&worker), seat, client, server, follower);
    match authenticate(&worker, &mut pump).await {
        Ok(true) => {
            let stop = pump.run().await;
            end(&worker, pump, stop).await;
        }
        Ok(false) => {}
        Err((refused, sequence)) => {
            note_refused(&worker, &refused);
            if let Some(sequence) = sequence {
                let (mut client, _seat) = pump.into_client();
                login::tell(&mut client, sequence, &refused).await;
            }
        }
    }
}

/// What the client waits for when its login is not passed on: the answer to that, or to its silence.
fn sequence_of_refusal(reason: Refusal) -> u8 {
    if reason == Refusal::LoginTimeout { 1 } else { 2 }
}

/// Passes the dialogue of authentication. Answers whether the client was let in; in case of a fault, what to tell the client
/// under which number.
async fn authenticate(worker: &Worker, pump: &mut Pump) -> Result<bool, (Refused, Option<u8>)> {
    loop {
        let awaited = pump.follower().awaited_sequence();
        let stop = match timeout(worker.options.login_timeout, pump.run()).await {
            Ok(stop) => stop,
            Err(_) => return Err((login::too_slow(), awaited)),
        };
        let refused = match stop {
            Stop::LoginStep => continue,
            Stop::LoggedIn => return Ok(true),
            Stop::LoginRefused(code) => {
                tracing::debug!(source = worker.upstream.name(), code, "a login was refused");
                worker.metrics.refused(Refusal::AccessDenied);
                // The upstream closes; passing that on is all that is left.
                let _ = timeout(FINISH, pump.run()).await;
                return Ok(false);
            }
            Stop::LoginFault(fault) => login::bad_login(&fault.to_string()),
            Stop::PasswordAsked => return Err((full_authentication(worker), awaited)),
            Stop::ClientClosed | Stop::ClientFailed(_) => {
                worker.metrics.refused(Refusal::LoginCut);
                return Ok(false);
            }
            Stop::UpstreamClosed => upstream_left_login(worker),
            Stop::Drained | Stop::Cut => {
                let message = "Server shutdown in progress".to_owned();
                Refused::new(Refusal::Shutdown, SHUTDOWN, LINK_FAILURE, message)
            }
        };
        return Err((refused, pump.follower().awaited_sequence().or(awaited)));
    }
}

fn full_authentication(worker: &Worker) -> Refused {
    let (name, address) = (worker.upstream.name(), worker.upstream.address());
    let message = format!(
        "Source '{name}' at {address} asks for the password itself (caching_sha2_password), which cannot pass from a client \
         without TLS to a source under TLS or behind a Unix socket: user or password is wrong, or the source does not know the \
         account yet, which a login at the source itself changes"
    );
    // Whoever it is about is told each time; a client that goes on trying would fill the log.
    if !worker.told_password_asked.replace(true) {
        tracing::warn!(source = name, "a login was refused: {message}");
    }
    Refused::new(Refusal::AccessDenied, UNREACHABLE, LINK_FAILURE, message)
}

fn upstream_left_login(worker: &Worker) -> Refused {
    let (name, address) = (worker.upstream.name(), worker.upstream.address());
    let message = format!("Source '{name}' at {address} closed the connection during the login");
    Refused::new(Refusal::LoginCut, UNREACHABLE, LINK_FAILURE, message)
}

async fn end(worker: &Worker, mut pump: Pump, stop: Stop) {
    match stop {
        Stop::ClientClosed => {
            if !pump.follower().has_quit() {
                worker.metrics.aborted(Abort::ClientLost);
            }
            let _ = timeout(FINISH, pump.finish()).await;
        }
        Stop::ClientFailed(_) if pump.follower().has_quit() => {}
        Stop::ClientFailed(error) => {
            tracing::debug!(source = worker.upstream.name(), %error, "a client was lost");
            worker.metrics.aborted(Abort::ClientLost);
        }
        Stop::UpstreamClosed if pump.follower().has_quit() => {}
        Stop::UpstreamClosed => {
            worker.metrics.aborted(Abort::UpstreamLost);
            let message = upstream_lost(worker);
            tracing::debug!(
                source = worker.upstream.name(),
                message,
                "an upstream connection was lost"
            );
            tell_lost(pump, CONNECTION_LOST, message).await;
        }
        // Servers too close idle connections without a word when they are stopped (MariaDB 10.11, observed): an error would be
        // taken for the reply to the client's next command.
        Stop::Drained => worker.metrics.aborted(Abort::Shutdown),
        Stop::Cut => {
            worker.metrics.aborted(Abort::Shutdown);
            tell_lost(pump, SHUTDOWN, "Server shutdown in progress".to_owned()).await;
        }
        Stop::PasswordAsked => {
            // The number of the packet that was held back.
            let sequence = pump.follower().awaited_sequence().map(|next| next.wrapping_sub(1));
            let refused = full_authentication(worker);
            note_refused(worker, &refused);
            if let Some(sequence) = sequence {
                let (mut client, _seat) = pump.into_client();
                login::tell(&mut client, sequence, &refused).await;
            }
        }
        Stop::LoginStep | Stop::LoggedIn | Stop::LoginRefused(_) | Stop::LoginFault(_) => {}
    }
}

fn upstream_lost(worker: &Worker) -> String {
    let (name, address) = (worker.upstream.name(), worker.upstream.address());
    // Frameworks look for these two words.
    format!("Lost connection to source '{name}' at {address} during this command")
}

/// Tells a client that waits for a reply that there will be none. One that waits for nothing, or is within a packet, could not
/// read it.
async fn tell_lost(pump: Pump, code: u16, message: String) {
    if let Some(sequence) = pump.follower().awaited_sequence() {
        let error = ErrPacket::new(code, LINK_FAILURE, message);
        let (mut client, _seat) = pump.into_client();
        refusal::in_reply(&mut client, sequence, &error).await;
    }
}

/// Notices a connection that ends by a panic: the runtime keeps that to its own task.
struct Guard {
    worker: Rc<Worker>,
    _open: OpenConnection,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.metrics.aborted(Abort::Internal);
        }
    }
}
