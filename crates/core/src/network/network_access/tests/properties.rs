//! Merging against its definition, over patterns and URLs that overlap often.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const HOSTS: &[&str] = &[
    "test",
    "a.test",
    "A.Test.",
    "b.a.test",
    "%61.test",
    "ba.test",
    "127.0.0.1",
    "0x7f.1",
    "[::ffff:127.0.0.1]",
    "[::1]",
];
const PORTS: &[&str] = &["", "", "", ":80", ":443", ":8443"];
const SCHEMES: &[&str] = &["http", "https", "HTTPS"];
const SEGMENTS: &[&str] = &["api", "%61pi", "v1", "apix", "%3b", ";", "%4%31", "~"];
const ODD_SEGMENTS: &[&str] = &[
    "", ".", "..", "%2e%2e", "api%2Fv1", "..%5c", "%2561pi", "..;", "%2541", "%41",
];
const ODD_PATTERNS: &[&str] = &[
    "",
    "::1",
    "a.test/api",
    "https://a.test/*",
    "https://a.test/api%2Fv1",
    "ftp://a.test",
];

fn path(segments: impl Strategy<Value = &'static str>) -> impl Strategy<Value = String> {
    vec(segments, 0..4).prop_map(|segments| {
        segments
            .iter()
            .map(|segment| format!("/{segment}"))
            .collect()
    })
}

fn host_pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(HOSTS).prop_map(str::to_owned),
        3 => select(&["test", "a.test", "B.a.test"][..]).prop_map(|host| format!("*.{host}")),
        1 => Just("*".to_owned()),
    ]
}

fn well_formed_pattern() -> impl Strategy<Value = String> {
    let host = (host_pattern(), select(PORTS)).prop_map(|(host, port)| format!("{host}{port}"));
    let prefix = (
        select(SCHEMES),
        host_pattern(),
        select(PORTS),
        path(select(SEGMENTS)),
    )
        .prop_map(|(scheme, host, port, path)| format!("{scheme}://{host}{port}{path}"));
    prop_oneof![host, prefix]
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => well_formed_pattern(),
        1 => select(ODD_PATTERNS).prop_map(str::to_owned),
    ]
}

fn list() -> impl Strategy<Value = NetworkAccessList> {
    let blocked = prop_oneof![Just(Vec::new()), vec(pattern(), 0..3)];
    (vec(pattern(), 0..5), blocked)
        .prop_map(|(allowed, blocked)| NetworkAccessList { allowed, blocked })
}

fn url() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![12 => select(SCHEMES), 1 => Just("ftp")];
    let user = prop_oneof![4 => Just(""), 1 => Just("u:p@")];
    let segment = prop_oneof![5 => select(SEGMENTS), 1 => select(ODD_SEGMENTS)];
    let end = select(&["", "", "/", "?q=/..", "#f"][..]);
    (
        scheme,
        user,
        select(HOSTS),
        select(PORTS),
        path(segment),
        end,
    )
        .prop_map(|(scheme, user, host, port, path, end)| {
            format!("{scheme}://{user}{host}{port}{path}{end}")
        })
}

fn merged(parent: &NetworkAccessList, child: &NetworkAccessList) -> NetworkAccessList {
    merge_network_access(Some(parent), Some(child)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn r67_merging_is_an_intersection(parent in list(), child in list(), urls in vec(url(), 20)) {
        let merged = merged(&parent, &child);
        for url in urls {
            let both = parent.is_url_allowed(&url) && child.is_url_allowed(&url);
            prop_assert_eq!(merged.is_url_allowed(&url), both, "{} by {:?}", url, merged);
        }
    }

    #[test]
    fn r67_the_intersection_of_two_patterns_is_exact(
        one in well_formed_pattern(), two in well_formed_pattern(), urls in vec(url(), 20),
    ) {
        let (one, two) = (only(&one), only(&two));
        let merged = merged(&one, &two);
        prop_assert_eq!(merged.validate(), Ok(()));
        prop_assert!(merged.allowed.len() <= 1);
        for url in urls {
            let both = one.is_url_allowed(&url) && two.is_url_allowed(&url);
            prop_assert_eq!(merged.is_url_allowed(&url), both, "{} by {:?}", url, merged);
        }
    }

    #[test]
    fn r67_the_order_of_layers_does_not_matter(a in list(), b in list(), c in list(), urls in vec(url(), 20)) {
        let (ab, ba) = (merged(&a, &b), merged(&b, &a));
        let (left, right) = (merged(&ab, &c), merged(&a, &merged(&b, &c)));
        for url in urls {
            prop_assert_eq!(ab.is_url_allowed(&url), ba.is_url_allowed(&url));
            prop_assert_eq!(left.is_url_allowed(&url), right.is_url_allowed(&url));
        }
    }

    #[test]
    fn r67_merging_again_changes_nothing(a in list(), b in list(), urls in vec(url(), 20)) {
        prop_assert_eq!(&merged(&a, &a), &a);
        let once = merged(&a, &b);
        let twice = merged(&once, &b);
        for url in urls {
            prop_assert_eq!(once.is_url_allowed(&url), twice.is_url_allowed(&url));
        }
    }

    #[test]
    fn no_text_panics_and_a_list_with_patterns_never_allows_another_scheme(pattern in ".*", url in ".*") {
        let allowed = only(&pattern).is_url_allowed(&url) || without(&pattern).is_url_allowed(&url);
        prop_assert!(!allowed || url.trim_start_matches(|c| c <= ' ').get(..1).is_some_and(|h| h.eq_ignore_ascii_case("h")));
    }

    #[test]
    fn pattern_blocks_what_it_allows(pattern in well_formed_pattern(), urls in vec(url(), 20)) {
        for url in urls {
            prop_assert!(!(only(&pattern).is_url_allowed(&url) && without(&pattern).is_url_allowed(&url)), "{}", url);
        }
    }
}
