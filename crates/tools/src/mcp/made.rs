//! What was made of the lists of servers, kept as long as the lists stay the same.
//!
//! A list that has not changed is the very same value each time, so a turn whose servers have nothing new gets what an earlier one got.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use windlass_core::digest::Digest128;
use windlass_core::mcp::DiscoveredTools;

use super::Answers;
use super::connection::Listed;

/// How many are kept: about one for each set of servers in use.
const MAX_KEPT: usize = 32;

/// What all servers of a turn answered. Of their configuration there is a digest alone: keys stand in it.
pub(super) struct Answered(Vec<(String, Digest128, Weak<Listed>)>);

impl Answered {
    /// Returns what names the answers; `None` where one failed, or there is nobody who answered.
    pub(super) fn of(answers: &Answers) -> Option<Self> {
        let mut named = Vec::with_capacity(answers.len());
        for (name, (server, listed)) in answers {
            let listed = Arc::downgrade(listed.as_ref().ok()?);
            named.push((name.clone(), Digest128::of_json(server), listed));
        }
        (!named.is_empty()).then_some(Self(named))
    }
}

impl PartialEq for Answered {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|((name, server, listed), (other, of_other, by_other))| {
                name == other && server == of_other && Weak::ptr_eq(listed, by_other)
            })
    }
}

/// What was made of answers of late.
#[derive(Default)]
pub(super) struct Made(Mutex<VecDeque<(Answered, Arc<DiscoveredTools>)>>);

impl Made {
    pub(super) fn get(&self, answered: &Answered) -> Option<Arc<DiscoveredTools>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| known == answered)?;
        let found = kept.remove(place)?;
        let made = Arc::clone(&found.1);
        kept.push_front(found);
        Some(made)
    }

    /// Keeps one in place of that which was not used for the longest time.
    pub(super) fn keep(&self, answered: Answered, made: &Arc<DiscoveredTools>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(MAX_KEPT - 1);
        kept.push_front((answered, Arc::clone(made)));
    }
}
