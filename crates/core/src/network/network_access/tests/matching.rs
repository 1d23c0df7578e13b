//! The URLs that a single list allows.

use super::*;

#[test]
fn host_pattern_matches_only_that_host() {
    check(
        &only("example.com"),
        &[
            "https://example.com",
            "http://example.com:8080/a?b#c",
            "HTTPS://EXAMPLE.com/",
            "https://example.com/a%2Fb",
        ],
        &[
            "https://api.example.com/",
            "https://example.com.evil.org/",
            "https://notexample.com/",
            "https://example.com@evil.org/",
            "https://evil.org/example.com",
        ],
    );
}

#[test]
fn a_wildcard_matches_the_host_and_its_subdomains() {
    check(
        &only("*.example.com"),
        &["https://example.com/", "https://a.b.example.com/"],
        &[
            "https://notexample.com/",
            "https://com/",
            "http://127.0.0.1/",
        ],
    );
}

#[test]
fn blocked_wins_over_allowed() {
    let list = NetworkAccessList {
        allowed: vec!["*.example.com".into()],
        blocked: vec!["secret.example.com".into()],
    };
    check(
        &list,
        &["https://api.example.com/"],
        &["https://secret.example.com/"],
    );
}

#[test]
fn r63_url_with_another_scheme_is_denied_by_every_list_with_patterns() {
    let denied = [
        "",
        "example.com",
        "/relative",
        "https://",
        "https://exa mple.com/",
        "https://example.com:99999/",
        "https://.../",
        "https://a..example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "ws://example.com/",
        "data:text/plain,hello",
    ];
    check(&only("example.com"), &[], &denied);
    check(&only("*"), &[], &denied);
    check(&without("evil.com"), &["http://example.com/"], &denied);
}

#[test]
fn r68_ports_addresses_and_the_star_match() {
    check(
        &only("example.com:8443"),
        &["https://example.com:8443/a", "http://example.com:8443/"],
        &["https://example.com/", "https://api.example.com:8443/"],
    );
    check(
        &only("example.com:443"),
        &["https://example.com/"],
        &["http://example.com/"],
    );
    check(
        &only("[::1]"),
        &["http://[::1]/", "http://[0:0::1]:8080/"],
        &["http://[::2]/", "http://127.0.0.1/"],
    );
    check(
        &only("[::1]:8080"),
        &["http://[::1]:8080/"],
        &["http://[::1]/"],
    );
    check(
        &only("*"),
        &["http://example.com/", "https://[::1]:8080/a%2Fb"],
        &["ftp://example.com/"],
    );
}

#[test]
fn r68_invalid_pattern_fails_closed() {
    check(&only("exa mple.com"), &[], &["https://example.com/"]);
    check(&without("exa mple.com"), &[], &["https://example.com/"]);
    let list = NetworkAccessList::allow_only(["https://x.com/*", "example.com"]);
    check(&list, &["https://example.com/"], &["https://x.com/a"]);
}

#[test]
fn r69_numeric_forms_match_the_dotted_form() {
    let spellings = [
        "http://127.0.0.1/",
        "http://127.0.0.1./",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1:8080/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://１２７.0.0.1/",
    ];
    for pattern in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"] {
        check(&without(pattern), &["http://127.0.0.2/"], &spellings);
        check(&only(pattern), &spellings, &["http://127.0.0.2/"]);
    }
}
