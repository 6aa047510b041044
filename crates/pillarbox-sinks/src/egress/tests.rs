//! Addresses, in every form they can be written.

use super::*;

/// IPv4 addresses of the network around us.
const INTERNAL: [&str; 24] = [
    "10.0.0.0",
    "10.0.0.1",
    "10.1.2.3",
    "10.255.255.255",
    "172.16.0.0",
    "172.16.0.1",
    "172.20.10.5",
    "172.31.255.255",
    "192.168.0.0",
    "192.168.0.1",
    "192.168.1.254",
    "192.168.255.255",
    "127.0.0.0",
    "127.0.0.1",
    "127.0.1.1",
    "127.1.2.3",
    "127.255.255.255",
    "100.64.0.0",
    "100.64.0.1",
    "100.100.0.1",
    "100.127.255.255",
    "198.18.0.0",
    "198.18.0.1",
    "198.19.255.255",
];

/// IPv4 addresses that are nobody's to send to, metadata services among them.
const NEVER: [&str; 30] = [
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "169.254.0.0",
    "169.254.0.1",
    "169.254.169.253",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.255.255",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "192.0.0.0",
    "192.0.0.8",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.255",
    "198.51.100.1",
    "203.0.113.1",
    "203.0.113.255",
    "192.88.99.1",
    "224.0.0.0",
    "224.0.0.1",
    "239.255.255.250",
    "239.255.255.255",
    "240.0.0.0",
    "240.0.0.1",
    "255.255.255.254",
    "255.255.255.255",
];

/// Neighbours of the blocks above, and well-known hosts.
const PUBLIC: [&str; 24] = [
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.101.0",
    "203.0.114.0",
    "223.255.255.255",
];

/// IPv6 addresses of the network around us.
const INTERNAL_V6: [&str; 8] =
    ["::1", "fc00::", "fc00::1", "fd00::1", "fd12:3456:789a::1", "fdff:ffff::1", "fec0::1", "feff::1"];

/// IPv6 addresses that are nobody's to send to.
const NEVER_V6: [&str; 40] = [
    "::",
    "fd00:ec2::254",
    "fd00:ec2::253",
    "fd00:ec2::23",
    "fd00:ec2:ffff::1",
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "fd00:a9fe:a9fe::1",
    "fd00:100::100:200",
    "fd20:ce::254",
    "64:ff9b:1::a00:1",
    "64:ff9b:1:808:8:800::",
    "64:ff9b:1:ffff::808:808",
    "fe80::",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "febf:ffff::1",
    "ff00::",
    "ff02::1",
    "ff05::2",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::",
    "2001:db8::1",
    "2001:db8:ffff::1",
    "3fff::1",
    "3fff:fff::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff::1",
    "100::1",
    "100:0:0:1::1",
    "5f00::1",
    "64:ff9b:2::1",
    "::2:0:0:1",
    "200::1",
    "400::1",
    "4000::1",
    "8000::1",
    "fe00::1",
];

const PUBLIC_V6: [&str; 7] = [
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2003::1",
    "3ffe::1",
    "2620:fe::fe",
];

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// The IPv6 addresses that lead to an IPv4 one.
fn ways_to(address: Ipv4Addr) -> Vec<Ipv6Addr> {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    [
        [0, 0, 0, 0, 0, 0xffff, high, low],
        [0, 0, 0, 0, 0xffff, 0, high, low],
        [0x64, 0xff9b, 0, 0, 0, 0, high, low],
        [0x2002, high, low, 0, 0, 0, 0, 1],
        [0x2001, 0, 0x4136, 0xe378, 0x8000, 0x63bf, !high, !low],
        [0x2a00, 1, 2, 3, 0, 0x5efe, high, low],
        [0x2a00, 1, 2, 3, 0x200, 0x5efe, high, low],
    ]
    .map(Ipv6Addr::from)
    .to_vec()
}

fn open() -> Egress {
    Egress { internal: true, ..Egress::default() }
}

fn allows(egress: &Egress, address: impl Into<IpAddr>) -> bool {
    egress.check(address.into()).is_ok()
}

/// PBX-023
#[test]
fn internal_addresses_are_reached_on_demand_only() {
    for address in
        INTERNAL.map(v4).map(IpAddr::from).into_iter().chain(INTERNAL_V6.map(|a| a.parse().unwrap()))
    {
        assert!(!allows(&Egress::default(), address), "{address}");
        assert!(allows(&open(), address), "{address}");
    }
}

/// PBX-023, PBX-158
#[test]
fn some_addresses_are_never_reached() {
    for address in NEVER.map(v4).map(IpAddr::from).into_iter().chain(NEVER_V6.map(|a| a.parse().unwrap())) {
        assert!(!allows(&Egress::default(), address), "{address}");
        assert!(!allows(&open(), address), "{address}");
    }
}

#[test]
fn public_addresses_are_reached() {
    for address in PUBLIC.map(v4).map(IpAddr::from).into_iter().chain(PUBLIC_V6.map(|a| a.parse().unwrap())) {
        assert!(allows(&Egress::default(), address), "{address}");
    }
}

/// PBX-023
#[test]
fn an_ipv4_address_inside_an_ipv6_one_is_no_way_around() {
    let all = INTERNAL.iter().chain(&NEVER).chain(&PUBLIC);
    for way in all.flat_map(|address| ways_to(v4(address))) {
        assert!(!allows(&Egress::default(), way), "{way}");
    }
    for way in NEVER.iter().flat_map(|address| ways_to(v4(address))) {
        assert!(!allows(&open(), way), "{way}");
    }
    for way in INTERNAL.iter().chain(&PUBLIC).flat_map(|address| ways_to(v4(address))) {
        assert!(allows(&open(), way), "{way}");
    }
    // ::0.0.0.1 is loopback itself.
    for address in NEVER.map(v4).into_iter().filter(|address| *address != Ipv4Addr::new(0, 0, 0, 1)) {
        assert!(!allows(&open(), address.to_ipv6_compatible()), "{address}");
    }
}

#[test]
fn ports_are_those_of_the_web_by_default() {
    let egress = Egress::default();
    assert!([80, 443, 8_080, 8_443].into_iter().all(|port| egress.allows_port(port)));
    assert!(![0, 22, 25, 3_306, 5_432, 6_379, 65_535].into_iter().any(|port| egress.allows_port(port)));
    assert!(Egress { ports: Vec::new(), ..egress }.allows_port(22));
}
