//! The remaining guarantees when URLs cannot be parsed.

use super::*;

#[test]
fn every_list_with_patterns_denies_all() {
    for list in [
        NetworkAccessList::allow_only(["*"]),
        NetworkAccessList::block(["evil.com"]),
    ] {
        assert_eq!(list.validate(), Ok(()));
        assert!(!list.is_url_allowed("https://example.com/"));
    }
}

#[test]
fn merging_retains_only_equal_patterns() {
    let one = NetworkAccessList::allow_only(["a.com", "b.com"]);
    let two = NetworkAccessList::allow_only(["b.com", "*.a.com"]);
    let merged = merge_network_access(Some(&one), Some(&two));
    assert_eq!(merged, Some(NetworkAccessList::allow_only(["b.com"])));
}
