//! Telling the addresses of the public internet from all others, after a name was resolved.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is outside the public internet, or contains an IPv4 address that is.
///
/// True for loopback, private, link-local, unique-local, shared (CGNAT), unspecified, multicast, broadcast, benchmark, documentation and reserved
/// addresses. An IPv4 address inside an IPv6 one (mapped, NAT64, 6to4, ISATAP) is checked too, because a gateway would deliver to it.
pub fn is_private_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let this_network = a == 0;
    let shared = a == 100 && b & 0xc0 == 64;
    let protocol_assignments = (a, b, c) == (192, 0, 0);
    let relay_anycast = (a, b, c) == (192, 88, 99);
    let benchmark = a == 198 && b & 0xfe == 18;
    let reserved = a >= 240;
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || this_network
        || shared
        || protocol_assignments
        || relay_anycast
        || benchmark
        || reserved
}

/// Only the block allocated to the public internet counts as public, so that unlisted ranges count as private.
fn is_private_v6(address: Ipv6Addr) -> bool {
    if let Some(embedded) = embedded_v4(address) {
        return is_private_v4(embedded);
    }
    let [a, b, _, _, _, c, ..] = address.segments();
    let global_unicast = a & 0xe000 == 0x2000;
    let protocol_assignments = a == 0x2001 && b < 0x0200;
    let documentation = (a, b) == (0x2001, 0x0db8) || (a == 0x3fff && b < 0x1000);
    let isatap = c == 0x5efe && is_private_v4(low_v4(address));
    !global_unicast || protocol_assignments || documentation || isatap
}

/// Finds the IPv4 address to which a translator or tunnel would send the packet.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(low_v4(address)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

fn low_v4(address: Ipv6Addr) -> Ipv4Addr {
    let [.., high, low] = address.segments();
    v4(high, low)
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}
