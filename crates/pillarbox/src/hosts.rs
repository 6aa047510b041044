//! Tells which hosts are this machine.

use std::net::IpAddr;

/// Whether a host of a URL is this machine: a loopback address, `localhost` or a name below it. What is sent
/// there stays on the machine. An IPv6 address may have its brackets.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => {
            let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "example.com", "localhost.example.com", "notlocalhost", "10.0.0.1", "0.0.0.0", "[::]", "::2"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
