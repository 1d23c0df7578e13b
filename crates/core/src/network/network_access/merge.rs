//! Merging the lists of two layers, so that the result allows what both allow.

use super::{NetworkAccessList, rules};

/// Merges two layers into a list that allows exactly the URLs that both allow.
///
/// Blocked patterns are united and allowed ones intersected pair by pair; where nothing is left the result is
/// [`NetworkAccessList::deny_all`], because an empty `allowed` would mean the opposite. Without the feature `url-rules`
/// only patterns that are spelled alike survive, which may narrow the result but never widens it.
pub fn merge_network_access(
    parent: Option<&NetworkAccessList>,
    child: Option<&NetworkAccessList>,
) -> Option<NetworkAccessList> {
    match (parent, child) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => Some(only.clone()),
        (Some(parent), Some(child)) => Some(merge(parent, child)),
    }
}

fn merge(parent: &NetworkAccessList, child: &NetworkAccessList) -> NetworkAccessList {
    let allowed = match (parent.allowed.as_slice(), child.allowed.as_slice()) {
        (only, []) | ([], only) => only.to_vec(),
        (parent, child) if parent == child => parent.to_vec(),
        (parent, child) => rules::intersect(parent, child),
    };
    let both_allow_only = !parent.allowed.is_empty() && !child.allowed.is_empty();
    if both_allow_only && allowed.is_empty() {
        return NetworkAccessList::deny_all();
    }
    NetworkAccessList {
        allowed,
        blocked: unite(&parent.blocked, &child.blocked),
    }
}

fn unite(parent: &[String], child: &[String]) -> Vec<String> {
    let added = child.iter().filter(|pattern| !parent.contains(pattern));
    parent.iter().chain(added).cloned().collect()
}
