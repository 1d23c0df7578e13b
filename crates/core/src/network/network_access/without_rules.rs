//! The rules of a build that cannot parse URLs: every decision that needs parsing is a denial.

use std::net::IpAddr;

use super::{InvalidPattern, NetworkAccessList};

pub(super) fn allows(_list: &NetworkAccessList, _url: &str) -> bool {
    false
}

pub(super) fn allows_address(_list: &NetworkAccessList, _url: &str, _address: IpAddr) -> bool {
    false
}

pub(super) fn blocks_part_of(
    _list: &NetworkAccessList,
    _url: &str,
    _address: Option<IpAddr>,
) -> bool {
    true
}

pub(super) fn check(_list: &NetworkAccessList) -> Result<(), InvalidPattern> {
    Ok(())
}

/// Returns the patterns with the same spelling on both sides: a subset of the true intersection, so that another build may use the result.
pub(super) fn intersect(parent: &[String], child: &[String]) -> Vec<String> {
    let common = parent.iter().filter(|pattern| child.contains(pattern));
    common.cloned().collect()
}
