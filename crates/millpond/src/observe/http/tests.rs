//! The server as clients meet it, polite ones and others.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

fn server() -> Server {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let answer = |asked: &Asked<'_>| Answer::ok("text/plain", asked.path.repeat(50_000));
    Server::start(local, "test", answer).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    // Longer than any answer takes on a slow day.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn get(server: &Server) -> String {
    let mut stream = connect(server);
    stream
        .write_all(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn silent_clients_delay_no_other_and_the_end_comes_at_once() {
    let server = server();
    let idle: Vec<_> = (0..2 * CLIENTS_MAX).map(|_| connect(&server)).collect();
    let mut greedy = connect(&server);
    greedy
        .write_all(b"GET /y HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut half = connect(&server);
    half.write_all(b"GET /").unwrap();
    let said = get(&server);
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.len() > 100_000);
    // Those that have been there for longest were sent away.
    let mut idle = idle.into_iter();
    assert_eq!(idle.next().unwrap().read(&mut [0; 8]).unwrap_or(0), 0);
    drop(server);
    let mut rest = Vec::new();
    assert!(half.read_to_end(&mut rest).is_ok_and(|n| n == 0) || rest.is_empty());
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let server = server();
    let again = Server::start(server.address(), "test", |_| Answer::refused(404, "no"));
    assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}
