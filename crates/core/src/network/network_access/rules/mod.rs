//! The rules of a build that parses URLs: patterns against targets.

mod host;
mod path;
mod pattern;
mod reach;
mod target;

use std::net::IpAddr;

use super::{InvalidPattern, NetworkAccessList, is_private_address};
use host::UrlHost;
use pattern::Pattern;
use target::UrlTarget;

/// Decides about a URL for a list that has patterns.
pub(super) fn allows(list: &NetworkAccessList, url: &str) -> bool {
    let Some(target) = UrlTarget::parse(url) else {
        return false;
    };
    !is_blocked(list, |pattern| pattern.blocks(&target))
        && (list.allowed.is_empty() || is_allowed(list, &target))
}

/// Decides about the resolved address of a URL's host, for a list that has patterns.
pub(super) fn allows_address(list: &NetworkAccessList, url: &str, address: IpAddr) -> bool {
    let Some(mut target) = UrlTarget::parse(url) else {
        return false;
    };
    let resolved = UrlHost::Address(address.to_canonical());
    let is_written = target.host == resolved;
    target.host = resolved;
    // An address written in the URL was checked with the URL. A name must not resolve to a private address unless the list allows it.
    !is_blocked(list, |pattern| pattern.blocks(&target))
        && (is_written || !is_private_address(address) || is_allowed(list, &target))
}

/// Returns whether a blocked pattern covers any part of the URL's host and port, or of the resolved address.
pub(super) fn blocks_part_of(list: &NetworkAccessList, url: &str, address: Option<IpAddr>) -> bool {
    let Some(mut target) = UrlTarget::parse(url) else {
        return true;
    };
    if let Some(address) = address {
        target.host = UrlHost::Address(address.to_canonical());
    }
    is_blocked(list, |pattern| pattern.touches(&target))
}

fn is_allowed(list: &NetworkAccessList, target: &UrlTarget) -> bool {
    let mut allowed = list.allowed.iter();
    allowed.any(|text| Pattern::parse(text).is_ok_and(|pattern| pattern.allows(target)))
}

/// Returns whether a blocked pattern matches; one that does not parse always does.
fn is_blocked(list: &NetworkAccessList, matches: impl Fn(&Pattern) -> bool) -> bool {
    let mut blocked = list.blocked.iter();
    blocked.any(|text| Pattern::parse(text).map_or(true, |pattern| matches(&pattern)))
}

pub(super) fn check(list: &NetworkAccessList) -> Result<(), InvalidPattern> {
    for text in list.allowed.iter().chain(&list.blocked) {
        Pattern::parse(text).map_err(|problem| InvalidPattern {
            pattern: text.clone(),
            problem,
        })?;
    }
    Ok(())
}

/// Returns the patterns that match what patterns of both sides allow; empty if the sides are disjoint.
pub(super) fn intersect(parent: &[String], child: &[String]) -> Vec<String> {
    let parent = spelled(parent);
    let child = spelled(child);
    let mut common_patterns: Vec<(String, Pattern)> = Vec::new();
    for (parent_text, parent) in &parent {
        for (child_text, child) in &child {
            let Some(common) = parent.intersect(child) else {
                continue;
            };
            if common_patterns
                .iter()
                .any(|(_, wider)| wider.covers(&common))
            {
                continue;
            }
            common_patterns.retain(|(_, narrower)| !common.covers(narrower));
            common_patterns.push((
                spelling(&common, [(parent_text, parent), (child_text, child)]),
                common,
            ));
        }
    }
    common_patterns.into_iter().map(|(text, _)| text).collect()
}

fn spelled(texts: &[String]) -> Vec<(&str, Pattern)> {
    let parsed = |text| Some((text, Pattern::parse(text).ok()?));
    texts
        .iter()
        .map(String::as_str)
        .filter_map(parsed)
        .collect()
}

/// Returns the text of the layer that wrote the pattern, so that users recognise it.
fn spelling(common: &Pattern, sources: [(&&str, &Pattern); 2]) -> String {
    let source = sources.into_iter().find(|(_, pattern)| *pattern == common);
    source.map_or_else(|| common.to_string(), |(text, _)| (*text).to_owned())
}
