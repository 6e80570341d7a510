//! Records connections to a server, as the tests of the follower replay them: what passed, which way, in which order.
//!
//! A file `NAME-N.session` holds connection N from the server's greeting on. One record is a byte for the direction (`c` from the
//! client, `s` from the server), the number of bytes (32 bits, little endian), and the bytes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clap::Parser;

/// Records the connections to one server until Ctrl-C.
#[derive(Parser)]
struct Arguments {
    /// Where clients connect; they must not use TLS or compression.
    #[arg(long, default_value = "127.0.0.1:4310")]
    listen: SocketAddr,
    /// The server.
    #[arg(long, default_value = "127.0.0.1:3306")]
    upstream: SocketAddr,
    /// Start of the names of the files.
    #[arg(long, default_value = "session")]
    name: PathBuf,
}

fn main() -> io::Result<()> {
    let Arguments { listen, upstream, name } = Arguments::parse();
    let listener = TcpListener::bind(listen)?;
    for (number, client) in listener.incoming().enumerate() {
        let server = TcpStream::connect(upstream)?;
        let client = client?;
        let file = File::create(format!("{}-{number}.session", name.display()))?;
        let file = Arc::new(Mutex::new(file));
        for (mark, from, to) in
            [(b'c', client.try_clone()?, server.try_clone()?), (b's', server, client)]
        {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                if let Err(error) = pass(mark, &from, &to, &file) {
                    eprintln!("connection {number}: {error}");
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
    Ok(())
}

/// Recorded first and sent then, so that an answer never comes before its question.
fn pass(mark: u8, mut from: &TcpStream, mut to: &TcpStream, file: &Mutex<File>) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let count = from.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        let length = u32::try_from(count).map_err(io::Error::other)?;
        let record = [&[mark], &length.to_le_bytes()[..], bytes].concat();
        file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&record)?;
        to.write_all(bytes)?;
    }
}
