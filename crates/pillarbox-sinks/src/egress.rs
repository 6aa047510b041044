//! Egress rules: the addresses and ports that webhooks may be sent to, checked on the resolved address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The endpoints that webhooks may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// Whether plain http is allowed. Default: no.
    pub plain_http: bool,
    /// Whether private, loopback and other internal addresses are allowed. Cloud metadata addresses are
    /// always forbidden. Default: no.
    pub internal: bool,
    /// The allowed ports; an empty list allows all. Default: 80, 443, 8080, 8443.
    pub ports: Vec<u16>,
}

impl Default for Egress {
    fn default() -> Self {
        Self { plain_http: false, internal: false, ports: vec![80, 443, 8_080, 8_443] }
    }
}

/// The error for a forbidden address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address is {kind}, which egress rules do not allow")]
pub struct Blocked {
    /// The kind of the address.
    pub kind: &'static str,
}

/// The kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A public address.
    Public,
    /// An internal address, allowed only with [`Egress::internal`].
    Internal(&'static str),
    /// An address that is always forbidden.
    Never(&'static str),
    /// An IPv6 address that leads to an IPv4 address. Allowed only with [`Egress::internal`], and only if the
    /// IPv4 address is allowed.
    Embedded(&'static str, Ipv4Addr),
}

impl Egress {
    /// Checks whether webhooks may connect to this address.
    pub fn check(&self, address: IpAddr) -> Result<(), Blocked> {
        let kind = match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        };
        self.judge(kind)
    }

    fn judge(&self, kind: Kind) -> Result<(), Blocked> {
        match kind {
            Kind::Public => Ok(()),
            Kind::Internal(_) if self.internal => Ok(()),
            Kind::Embedded(_, address) if self.internal => self.judge(of_v4(address)),
            Kind::Internal(kind) | Kind::Never(kind) | Kind::Embedded(kind, _) => Err(Blocked { kind }),
        }
    }

    /// Whether webhooks may connect to this port.
    #[must_use]
    pub fn allows_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.contains(&port)
    }
}

fn of_v4(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] => Kind::Never("of this network (0.0.0.0/8)"),
        // Cloud metadata services: the whole link-local block, and those with addresses outside of it.
        [169, 254, ..] => Kind::Never("link-local, where metadata services are"),
        [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => Kind::Never("a metadata service"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Internal("private"),
        [127, ..] => Kind::Internal("loopback"),
        [100, 64..=127, ..] => Kind::Internal("shared by a carrier (100.64.0.0/10)"),
        [198, 18..=19, ..] => Kind::Internal("for benchmarks (198.18.0.0/15)"),
        [192, 0, 0, _] => Kind::Never("for protocols (192.0.0.0/24)"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Kind::Never("for documentation"),
        [192, 88, 99, _] => Kind::Never("a 6to4 relay"),
        [224..=239, ..] => Kind::Never("multicast"),
        [240..=255, ..] => Kind::Never("reserved"),
        _ => Kind::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Kind {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Never("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Internal("loopback"),
        [0, 0, 0, 0, 0, 0xffff, high, low] => Kind::Embedded("IPv4-mapped", v4(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Kind::Embedded("IPv4-translated", v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] => Kind::Embedded("IPv4-compatible", v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Kind::Embedded("behind NAT64", v4(high, low)),
        // NAT64 of local use: where the IPv4 address is depends on a prefix that only the network knows.
        [0x64, 0xff9b, 1, ..] => Kind::Never("behind a NAT64 of local use"),
        [0x2002, high, low, ..] => Kind::Embedded("6to4", v4(high, low)),
        // Teredo stores the client's IPv4 address at the end, with all bits inverted.
        [0x2001, 0, _, _, _, _, high, low] => Kind::Embedded("Teredo", v4(!high, !low)),
        // Metadata services: all of AWS's block, and the addresses of Google, Oracle, Scaleway, Linode and
        // Alibaba, which lie in blocks that others use too.
        [0xfd00, 0xec2, ..]
        | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        | [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
        | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]
        | [0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1]
        | [0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200] => Kind::Never("a metadata service"),
        [0xfe80..=0xfebf, ..] => Kind::Never("link-local, where metadata services are"),
        [0xfc00..=0xfdff, ..] => Kind::Internal("unique local"),
        [0xfec0..=0xfeff, ..] => Kind::Internal("site-local"),
        [0xff00..=0xffff, ..] => Kind::Never("multicast"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Kind::Never("for documentation"),
        [0x2001, 1..=0x1ff, ..] => Kind::Never("for protocols (2001::/23)"),
        // ISATAP: an IPv4 address after a fixed interface identifier, under any prefix.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, high, low] => Kind::Embedded("ISATAP", v4(high, low)),
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Never("reserved"),
    }
}

#[cfg(test)]
mod tests;
