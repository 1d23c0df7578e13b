//! Rules that apply with and without URL parsing.

use super::*;

#[test]
fn an_empty_list_limits_nothing() {
    let list = NetworkAccessList::default();
    assert!(list.is_empty());
    for url in ["https://example.com/", "ftp://example.com/", "no url"] {
        assert!(list.is_url_allowed(url), "{url}");
    }
}

#[test]
fn deny_all_is_not_empty_and_denies() {
    let list = NetworkAccessList::deny_all();
    assert!(!list.is_empty());
    assert_eq!(list.validate(), Ok(()));
    for url in [
        "https://example.com/",
        "http://[::1]:8080/",
        "ftp://example.com/",
        "no url",
    ] {
        assert!(!list.is_url_allowed(url), "{url}");
    }
}

#[test]
fn empty_fields_are_left_out_of_json_and_may_be_missing() {
    let check = |list: NetworkAccessList, json: &str| {
        assert_eq!(serde_json::to_string(&list).unwrap(), json);
        assert_eq!(
            serde_json::from_str::<NetworkAccessList>(json).unwrap(),
            list
        );
    };
    check(NetworkAccessList::default(), "{}");
    check(
        NetworkAccessList::allow_only(["a.com"]),
        r#"{"allowed":["a.com"]}"#,
    );
    check(NetworkAccessList::deny_all(), r#"{"blocked":["*"]}"#);
}

#[test]
fn merging_with_an_empty_layer_changes_nothing() {
    let list = NetworkAccessList::allow_only(["a.com", "A.com", "not a pattern"]);
    let empty = NetworkAccessList::default();
    assert_eq!(merge_network_access(None, None), None);
    assert_eq!(
        merge_network_access(None, Some(&empty)),
        Some(empty.clone())
    );
    for other in [None, Some(&empty), Some(&list)] {
        assert_eq!(merge_network_access(Some(&list), other), Some(list.clone()));
        assert_eq!(merge_network_access(other, Some(&list)), Some(list.clone()));
    }
}

#[test]
fn merging_unites_blocked_patterns() {
    let parent = NetworkAccessList {
        allowed: vec!["*.a.com".into()],
        blocked: vec!["x.a.com".into(), "y.a.com".into()],
    };
    let child = NetworkAccessList::block(["y.a.com", "z.a.com"]);
    let merged = merge_network_access(Some(&parent), Some(&child)).unwrap();
    assert_eq!(merged.allowed, ["*.a.com"]);
    assert_eq!(merged.blocked, ["x.a.com", "y.a.com", "z.a.com"]);
}

#[test]
fn r67_an_empty_intersection_denies_all() {
    let a = NetworkAccessList::allow_only(["a.com"]);
    let b = NetworkAccessList::allow_only(["b.com"]);
    let merged = merge_network_access(Some(&a), Some(&b)).unwrap();
    assert_eq!(merged, NetworkAccessList::deny_all());
    let again = merge_network_access(Some(&merged), Some(&a)).unwrap();
    assert!(!again.is_url_allowed("https://a.com/"));
}
