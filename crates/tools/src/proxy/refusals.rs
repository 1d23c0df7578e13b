//! The refusals of a proxy, for the model.

use std::collections::BTreeSet;
use std::sync::Mutex;

use windlass_core::lock::lock;

/// Maximum number of refusals shown; a command may cause any number.
const MAX_SHOWN: usize = 8;

/// The refusals of a proxy, each reason once.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<RefusalReasons>);

#[derive(Debug, Default)]
struct RefusalReasons {
    reasons: BTreeSet<String>,
    has_more: bool,
}

impl Refusals {
    pub(super) fn record(&self, reason: &str) {
        let mut refusals = lock(&self.0);
        if refusals.reasons.contains(reason) {
            return;
        }
        if refusals.reasons.len() < MAX_SHOWN {
            refusals.reasons.insert(reason.to_owned());
        } else {
            refusals.has_more = true;
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        let refusals = lock(&self.0);
        if refusals.reasons.is_empty() {
            return None;
        }
        let reasons: Vec<_> = refusals.reasons.iter().map(String::as_str).collect();
        let more = if refusals.has_more {
            "; and others"
        } else {
            ""
        };
        Some(format!("the network refused: {}{more}", reasons.join("; ")))
    }
}
