//! The head of a request and of its answer.

use std::net::IpAddr;

/// A head that is longer is refused: what a browser sends is a fifth of it.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;

/// And one with more lines.
const HEADERS_MAX: usize = 100;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked<'a> {
    /// The path, with its slash, as it was sent.
    pub path: &'a str,
    /// The part after the question mark, or nothing.
    pub query: &'a str,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200 if it is what was asked for.
    pub status: u16,
    /// As `text/plain; charset=utf-8`.
    pub content_type: &'static str,
    /// The content.
    pub body: Vec<u8>,
}

impl Answer {
    /// The requested resource.
    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status: 200,
            content_type,
            body: body.into(),
        }
    }

    /// Something else, with a sentence that says why.
    pub fn refused(status: u16, why: &str) -> Answer {
        Answer {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{why}\n").into_bytes(),
        }
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let allow = if self.status == 405 {
            "Allow: GET, HEAD\r\n"
        } else {
            ""
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline' 'wasm-unsafe-eval'; \
             connect-src 'self'; frame-ancestors 'none'; base-uri 'none'\r\n{allow}\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        let mut bytes = head.into_bytes();
        if !is_head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

/// The answer to the input so far; `None` if its head is incomplete.
pub(super) fn answer(
    input: &[u8],
    is_loopback: bool,
    answer: &mut impl FnMut(&Asked<'_>) -> Answer,
) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let refused = |status, why: &str| Some(Answer::refused(status, why).bytes(false));
    match request.parse(input) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if input.len() <= HEAD_BYTES_MAX => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return refused(431, "the head of a request has 8192 bytes and 100 lines at most");
        }
        Err(error) => return refused(400, &format!("this is not an HTTP request: {error}")),
    }
    let mut hosts = request
        .headers
        .iter()
        .filter(|h| h.name.eq_ignore_ascii_case("host"));
    let host = hosts
        .next()
        .map(|h| String::from_utf8_lossy(h.value).into_owned());
    if hosts.next().is_some() || (host.is_none() && request.version == Some(1)) {
        return refused(400, "an HTTP/1.1 request must name one host");
    }
    if is_loopback && !host.as_deref().is_none_or(is_direct) {
        return refused(403, "use the address or localhost: other names are refused");
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return refused(405, "only GET and HEAD are served"),
    };
    let target = request.path.unwrap_or("/");
    // A proxy sends the whole address.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Some(answer(&Asked { path, query }).bytes(is_head))
}

/// Whether a host is this one by its address or as `localhost`, with or without a port.
fn is_direct(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(input: &str) -> Option<String> {
        let mut echo =
            |asked: &Asked<'_>| Answer::ok("text/plain", format!("{}|{}", asked.path, asked.query));
        answer(input.as_bytes(), true, &mut echo).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn status(input: &str) -> String {
        said(input).unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    #[test]
    fn a_whole_request_is_answered_and_half_of_one_waits() {
        let request = "GET /metrics?a=1 HTTP/1.1\r\nHost: localhost:9464\r\n\r\n";
        let answer = said(request).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Length: 12\r\n") && answer.ends_with("\r\n\r\n/metrics|a=1"));
        for end in 0..request.len() {
            assert_eq!(said(&request[..end]), None, "{end}");
        }
        assert!(said("HEAD / HTTP/1.0\r\n\r\n").unwrap().ends_with("\r\n\r\n"));
        let by_proxy = "GET http://127.0.0.1:1/x HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n";
        assert!(said(by_proxy).unwrap().ends_with("\r\n\r\n/x|"));
    }

    #[test]
    fn foreign_requests_are_refused_with_the_reason() {
        for (request, code) in [
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
        ] {
            assert_eq!(status(request), code, "{request}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(status(&long), "431");
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(status(&many), "431");
    }
}
