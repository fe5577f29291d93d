//! Hands bytes on, those to the server so much later: what a server would be like that takes longer for each request. Clients
//! that can't be told to wait before a request are measured through it.

use crate::measure::Result;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const BUFFER_BYTES: usize = 256 << 10;

pub(crate) fn serve(from: &str, to: &str, delay_ms: u64) -> Result<()> {
    let delay = Duration::from_millis(delay_ms);
    for client in TcpListener::bind(from)?.incoming() {
        let (client, server) = (client?, TcpStream::connect(to)?);
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (answers, answered) = (server.try_clone()?, client.try_clone()?);
        let (sent, delayed) = channel();
        std::thread::spawn(move || {
            read(client, |bytes| sent.send((Instant::now() + delay, bytes)).is_ok());
        });
        std::thread::spawn(move || write_late(server, &delayed));
        std::thread::spawn(move || {
            let mut to = answered;
            read(answers, |bytes| to.write_all(&bytes).is_ok());
            // There may have been none to tell.
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
    Ok(())
}

/// Until there is no more, or `take` takes no more.
fn read(mut from: TcpStream, mut take: impl FnMut(Vec<u8>) -> bool) {
    loop {
        let mut bytes = vec![0; BUFFER_BYTES];
        match from.read(&mut bytes) {
            Ok(read) if read > 0 => bytes.truncate(read),
            _ => return,
        }
        if !take(bytes) {
            return;
        }
    }
}

fn write_late(mut server: TcpStream, delayed: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((at, bytes)) = delayed.recv() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if server.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Write);
}
