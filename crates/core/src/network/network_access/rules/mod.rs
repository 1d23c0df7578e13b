//! The rules of a build that parses URLs: patterns against targets.

mod host;
mod path;
mod pattern;
mod reach;
mod target;

use std::net::IpAddr;

use super::{InvalidPattern, NetworkAccessList, is_private_address};
use host::Host;
use pattern::Pattern;
use target::Target;

/// Decides about a URL for a list that has patterns.
pub(super) fn allows(list: &NetworkAccessList, url: &str) -> bool {
    let Some(target) = Target::parse(url) else {
        return false;
    };
    let blocked = list
        .blocked
        .iter()
        .any(|text| Pattern::parse(text).map_or(true, |pattern| pattern.blocks(&target)));
    let allowed = list
        .allowed
        .iter()
        .any(|text| Pattern::parse(text).is_ok_and(|pattern| pattern.allows(&target)));
    !blocked && (allowed || list.allowed.is_empty())
}

/// Decides about the address that a URL's host turned out to have, for a list that has patterns.
pub(super) fn allows_address(list: &NetworkAccessList, url: &str, address: IpAddr) -> bool {
    let Some(mut target) = Target::parse(url) else {
        return false;
    };
    let found = Host::Address(address.to_canonical());
    let is_written = target.host == found;
    target.host = found;
    let blocked = list
        .blocked
        .iter()
        .any(|text| Pattern::parse(text).map_or(true, |pattern| pattern.blocks(&target)));
    let names_it = |text: &String| Pattern::parse(text).is_ok_and(|it| it.allows(&target));
    // An address written in the URL was checked with the URL. A name must not resolve to a private address unless the list allows it.
    !blocked && (is_written || !is_private_address(address) || list.allowed.iter().any(names_it))
}

/// Returns whether a blocked pattern covers any part of the URL's host and port, or of the resolved address.
pub(super) fn blocks_part_of(list: &NetworkAccessList, url: &str, address: Option<IpAddr>) -> bool {
    let Some(mut target) = Target::parse(url) else {
        return true;
    };
    if let Some(address) = address {
        target.host = Host::Address(address.to_canonical());
    }
    let mut blocked = list.blocked.iter();
    blocked.any(|text| Pattern::parse(text).map_or(true, |it| it.touches(&target)))
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

/// Gives the patterns that match what some pattern of each side allows; none when the sides have nothing in common.
pub(super) fn intersect(parent: &[String], child: &[String]) -> Vec<String> {
    let parent = spelled(parent);
    let child = spelled(child);
    let mut kept: Vec<(String, Pattern)> = Vec::new();
    for (parent_text, parent) in &parent {
        for (child_text, child) in &child {
            let Some(common) = parent.intersect(child) else {
                continue;
            };
            if kept.iter().any(|(_, wider)| wider.covers(&common)) {
                continue;
            }
            kept.retain(|(_, narrower)| !common.covers(narrower));
            kept.push((
                spelling(&common, [(parent_text, parent), (child_text, child)]),
                common,
            ));
        }
    }
    kept.into_iter().map(|(text, _)| text).collect()
}

fn spelled(texts: &[String]) -> Vec<(&str, Pattern)> {
    let parsed = |text| Some((text, Pattern::parse(text).ok()?));
    texts
        .iter()
        .map(String::as_str)
        .filter_map(parsed)
        .collect()
}

/// Keeps the words of the layer that wrote the pattern, so that people recognise it.
fn spelling(common: &Pattern, sources: [(&&str, &Pattern); 2]) -> String {
    let source = sources.into_iter().find(|(_, pattern)| *pattern == common);
    source.map_or_else(|| common.to_string(), |(text, _)| (*text).to_owned())
}
