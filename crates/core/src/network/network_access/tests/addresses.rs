//! The addresses that count as private after name resolution.

use super::*;

#[track_caller]
fn check_private(private: bool, addresses: &[&str]) {
    for address in addresses {
        let parsed = address.parse().unwrap();
        assert_eq!(is_private_address(parsed), private, "{address}");
    }
}

#[test]
fn r69_addresses_outside_the_public_internet_are_private() {
    let v4 = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
    ];
    let v6 = [
        "::",
        "::1",
        "::2",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "3fff:fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    check_private(true, &v4);
    check_private(true, &v6);
}

#[test]
fn r69_a_private_address_inside_an_ipv6_address_is_private() {
    let embedded = [
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::1",
        "2002:c0a8:101::",
        "2a00::5efe:192.168.1.1",
        "2a00::200:5efe:10.0.0.1",
    ];
    check_private(true, &embedded);
}

#[test]
fn r69_addresses_of_the_public_internet_are_not_private() {
    let v4 = [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.0.1",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
    ];
    let v6 = [
        "2001:200::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001:80b::200e",
        "3fff:1000::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2a00::5efe:8.8.8.8",
    ];
    check_private(false, &v4);
    check_private(false, &v6);
}
