//! Addresses at which a command serves: on this machine only, unless another is given.

use std::net::SocketAddr;

/// Where to serve: a port alone is on 127.0.0.1, which no other machine reaches.
pub(crate) fn local_address(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .parse::<u16>()
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "give a port such as 9464, or an address with one: 127.0.0.1:9464, [::1]:9464".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_a_local_one() {
        assert_eq!(
            local_address("9464"),
            Ok(SocketAddr::from(([127, 0, 0, 1], 9464)))
        );
        assert_eq!(
            local_address("0.0.0.0:1"),
            Ok(SocketAddr::from(([0, 0, 0, 0], 1)))
        );
        for text in ["", "70000", "localhost", "127.0.0.1", "::1:9464x"] {
            assert!(local_address(text).is_err(), "{text}");
        }
    }
}
