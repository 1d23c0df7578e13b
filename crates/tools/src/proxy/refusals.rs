//! What a proxy has refused, for the model to read.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// How many are told; a command may try any number.
const MAX_TOLD: usize = 8;

/// What a proxy has refused, each reason once.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    reasons: BTreeSet<String>,
    has_more: bool,
}

impl Refusals {
    pub(super) fn note(&self, reason: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.reasons.contains(reason) {
            return;
        }
        match told.reasons.len() < MAX_TOLD {
            true => drop(told.reasons.insert(reason.to_owned())),
            false => told.has_more = true,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.reasons.is_empty() {
            return None;
        }
        let reasons: Vec<_> = told.reasons.iter().map(String::as_str).collect();
        let more = if told.has_more { "; and others" } else { "" };
        Some(format!("the network refused: {}{more}", reasons.join("; ")))
    }
}
