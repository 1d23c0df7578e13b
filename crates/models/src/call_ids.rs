//! Unique call IDs in a request.
//!
//! Some model servers give every call the same ID. If they were returned unchanged, providers would refuse the request or confuse
//! the results of calls. A call with a used ID therefore gets a unique one, the same in every request, and its result gets
//! that ID too.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use windlass_core::bounds::prefix;

use crate::prompt::PromptEntry;

/// Maximum length of an ID that all providers accept.
const MAX_BYTES: usize = 64;

/// Numbers repeated call IDs, and gives results the IDs of their calls. Results with equal IDs are in the order of
/// their calls.
pub(crate) fn with_unique_ids(mut entries: Vec<PromptEntry<'_>>) -> Vec<PromptEntry<'_>> {
    if !has_repeats(&entries) {
        return entries;
    }
    let mut used: HashSet<String> = HashSet::new();
    let mut waiting: HashMap<String, VecDeque<String>> = HashMap::new();
    for entry in &mut entries {
        match entry {
            PromptEntry::Agent(agent) => {
                // Unanswered calls of earlier messages get no result any more.
                waiting.clear();
                for call in &mut agent.calls {
                    let id = unused_id(&call.id, &used);
                    used.insert(id.clone());
                    let open_ids = waiting.entry(call.id.to_string()).or_default();
                    open_ids.push_back(id.clone());
                    call.id = Cow::Owned(id);
                }
            }
            PromptEntry::Result(answer) => {
                let open_ids = waiting.get_mut(answer.call_id.as_ref());
                if let Some(id) = open_ids.and_then(VecDeque::pop_front) {
                    answer.call_id = Cow::Owned(id);
                }
            }
            PromptEntry::System(_) | PromptEntry::User(_) => {}
        }
    }
    entries
}

fn has_repeats(entries: &[PromptEntry<'_>]) -> bool {
    let mut seen = HashSet::new();
    let mut calls = entries.iter().flat_map(|entry| match entry {
        PromptEntry::Agent(agent) => agent.calls.as_slice(),
        _ => &[],
    });
    calls.any(|call| !seen.insert(call.id.as_ref()))
}

/// Returns the ID, or the first unused one with a numeric suffix.
fn unused_id(id: &str, used: &HashSet<String>) -> String {
    if !used.contains(id) {
        return id.to_owned();
    }
    let mut numbered = (2_u32..).map(|number| {
        let number = format!("_{number}");
        format!("{}{number}", prefix(id, MAX_BYTES - number.len()))
    });
    numbered.find(|id| !used.contains(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::prompt::{AgentMessage, PromptCall, ToolAnswer};

    fn agent<'a>(ids: &[&'static str], arguments: &'a Value) -> PromptEntry<'a> {
        let call = |id: &&'static str| PromptCall {
            id: (*id).into(),
            name: "t",
            arguments,
        };
        PromptEntry::Agent(AgentMessage {
            text: "".into(),
            thinking: None,
            signature: None,
            items: &[],
            calls: ids.iter().map(call).collect(),
            phase: None,
        })
    }

    fn result(id: &'static str) -> PromptEntry<'static> {
        PromptEntry::Result(ToolAnswer {
            call_id: id.into(),
            text: "".into(),
            is_error: false,
            images: Vec::new(),
        })
    }

    fn ids(entries: &[PromptEntry<'_>]) -> Vec<String> {
        let of = |entry: &PromptEntry<'_>| match entry {
            PromptEntry::Agent(agent) => {
                agent.calls.iter().map(|call| call.id.to_string()).collect()
            }
            PromptEntry::Result(answer) => vec![answer.call_id.to_string()],
            _ => Vec::new(),
        };
        entries.iter().flat_map(of).collect()
    }

    #[test]
    fn calls_have_unique_ids_shared_with_their_results() {
        let none = json!({});
        let entries = vec![
            agent(&["toolu_1", "toolu_1", "toolu_1_2"], &none),
            result("toolu_1"),
            result("toolu_1"),
            result("toolu_1_2"),
            agent(&["toolu_1"], &none),
            agent(&["toolu_1"], &none),
            result("toolu_1"),
            result("unmatched"),
        ];
        assert_eq!(
            ids(&with_unique_ids(entries)),
            [
                "toolu_1",
                "toolu_1_2",
                "toolu_1_2_2",
                "toolu_1",
                "toolu_1_2",
                "toolu_1_2_2",
                "toolu_1_3",
                "toolu_1_4",
                "toolu_1_4",
                "unmatched"
            ]
        );
    }

    #[test]
    fn unique_ids_are_unchanged_and_long_ones_are_shortened() {
        let none = json!({});
        let entries = vec![agent(&["a", "b"], &none), result("b"), result("a")];
        assert_eq!(ids(&with_unique_ids(entries)), ["a", "b", "b", "a"]);
        let long: &'static str = "é".repeat(40).leak();
        let found = ids(&with_unique_ids(vec![agent(&[long, long], &none)]));
        assert!(
            found[1].len() <= MAX_BYTES && found[1].ends_with("_2"),
            "{}",
            found[1]
        );
    }
}
