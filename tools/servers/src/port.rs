//! Chooses free ports.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The first ephemeral port. Any client may hold one of these at any time.
const FIRST_OF_CLIENTS: u16 = 32_768;
/// Distance between tries, large enough to skip the preferred ports of the other servers.
const STEP: u16 = 20;
const MAX_TRIES: u16 = 100;
const CONNECTED: Duration = Duration::from_secs(1);

/// The first of `count` consecutive free ports, searched from the preferred one.
pub(super) fn choose(preferred: u16, count: u16) -> Result<u16, String> {
    let are_free = |port: u16| (port..port.saturating_add(count)).all(is_free);
    first_free(preferred, are_free).ok_or_else(|| format!("no free port from {preferred} on"))
}

/// Whether a server could listen on the port now.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Whether a server listens on the port.
pub(super) fn takes_connections(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECTED).is_ok()
}

fn first_free(preferred: u16, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    let tries = (0..MAX_TRIES).filter_map(|index| preferred.checked_add(index * STEP));
    tries.take_while(|port| *port < FIRST_OF_CLIENTS).find(|port| is_free(*port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_port_is_taken_if_it_is_free() {
        assert_eq!(first_free(15_415, |_| true), Some(15_415));
    }

    #[test]
    fn ports_in_use_are_passed_over_in_steps() {
        assert_eq!(first_free(15_415, |port| port > 15_440), Some(15_455));
    }

    #[test]
    fn ports_of_clients_are_never_taken() {
        assert_eq!(first_free(32_740, |port| port > 32_760), None);
        assert_eq!(first_free(15_415, |_| false), None);
    }

    #[test]
    fn a_port_somebody_listens_on_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port) && takes_connections(port));
        assert_ne!(choose(port, 1), Ok(port));
        assert_ne!(choose(port - 1, 2), Ok(port - 1));
    }
}
