//! The refusals of a proxy, for the model.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::lock::lock;

/// Maximum number of refusals shown; a command may cause any number.
const MAX_TOLD: usize = 8;

/// The refusals of a proxy, each reason once.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    reasons: BTreeSet<String>,
    has_more: bool,
}

impl Refusals {
    pub(super) fn note(&self, reason: &str) {
        let mut told = lock(&self.0);
        if told.reasons.contains(reason) {
            return;
        }
        if told.reasons.len() < MAX_TOLD {
            told.reasons.insert(reason.to_owned());
        } else {
            told.has_more = true;
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        let told = lock(&self.0);
        if told.reasons.is_empty() {
            return None;
        }
        let reasons: Vec<_> = told.reasons.iter().map(String::as_str).collect();
        let more = if told.has_more { "; and others" } else { "" };
        Some(format!("the network refused: {}{more}", reasons.join("; ")))
    }
}
