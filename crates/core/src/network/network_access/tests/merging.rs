//! Merging the patterns of two layers.

use super::*;

/// Merges two allow lists in both orders, and checks the patterns left; none means that all is denied.
#[track_caller]
fn check_merge(one: &[&str], two: &[&str], left: &[&str]) {
    let list = |patterns: &[&str]| NetworkAccessList::allow_only(patterns.iter().copied());
    let expected = if left.is_empty() {
        NetworkAccessList::deny_all()
    } else {
        list(left)
    };
    for (parent, child) in [(one, two), (two, one)] {
        let merged = merge_network_access(Some(&list(parent)), Some(&list(child)));
        assert_eq!(
            merged.as_ref(),
            Some(&expected),
            "{parent:?} with {child:?}"
        );
    }
}

#[test]
fn r67_narrower_pattern_retains_its_spelling() {
    let prefix = "https://example.com/api/";
    check_merge(
        &["api.example.com"],
        &["*.example.com"],
        &["api.example.com"],
    );
    check_merge(&["example.com"], &[prefix], &[prefix]);
    check_merge(&["*.example.com"], &[prefix], &[prefix]);
    check_merge(&["https://example.com"], &[prefix], &[prefix]);
    check_merge(&["*"], &["Example.COM"], &["Example.COM"]);
    check_merge(&["*.com"], &["*.example.com"], &["*.example.com"]);
    check_merge(
        &["*.example.com"],
        &["https://api.example.com/v1"],
        &["https://api.example.com/v1"],
    );
    check_merge(
        &["example.com:8443"],
        &["*.example.com"],
        &["example.com:8443"],
    );
    check_merge(&["[::1]"], &["[0::1]:8080"], &["[0::1]:8080"]);
}

#[test]
fn r67_a_partial_overlap_becomes_one_pattern() {
    check_merge(&["*.example.com"], &["*:8443"], &["*.example.com:8443"]);
    check_merge(&["*:8443"], &["[::1]"], &["[::1]:8443"]);
    check_merge(
        &["https://*.example.com/"],
        &["https://*/%76%31/a%3bb/"],
        &["https://*.example.com/v1/a%3Bb"],
    );
    check_merge(
        &["http://*.example.com:8080/v1"],
        &["http://api.example.com:8080"],
        &["http://api.example.com:8080/v1"],
    );
    check_merge(
        &["API.example.com."],
        &["http://*"],
        &["http://api.example.com/"],
    );
}

#[test]
fn r67_case_and_default_port_do_not_matter() {
    let left =
        |one: &str, two: &str| merge_network_access(Some(&only(one)), Some(&only(two))).unwrap();
    let urls = ["https://example.com/api", "https://EXAMPLE.com:443/api/v1"];
    check(
        &left("https://EXAMPLE.com:443/api", "HTTPS://example.com/api/"),
        &urls,
        &[],
    );
    check(
        &left("example.com:443", "https://example.com"),
        &urls,
        &["http://example.com:443/"],
    );
}

#[test]
fn r67_patterns_without_overlap_deny_all() {
    check_merge(&["a.com"], &["b.com"], &[]);
    check_merge(&["a.com:80"], &["a.com:81"], &[]);
    check_merge(&["a.com:80"], &["https://a.com"], &[]);
    check_merge(&["http://a.com"], &["https://a.com"], &[]);
    check_merge(&["https://a.com/a"], &["https://a.com/ab"], &[]);
    check_merge(&["*.a.com"], &["*.b.com", "127.0.0.1"], &[]);
    check_merge(&["not a pattern"], &["*"], &[]);
}

#[test]
fn r67_covered_patterns_are_omitted() {
    check_merge(
        &["*"],
        &["a.com", "*.a.com", "A.com", "b.com:1"],
        &["*.a.com", "b.com:1"],
    );
    check_merge(
        &["*.a.com", "https://b.com/v1"],
        &["a.com", "b.com", "c.com"],
        &["a.com", "https://b.com/v1"],
    );
}
