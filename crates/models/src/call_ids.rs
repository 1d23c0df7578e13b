//! The ids of calls in a request.
//!
//! Some model servers give every call the same id. Sent back as they came, providers refuse the request, or take the
//! result of one call for that of another. So a call whose id was used before gets one of its own, the same in every
//! request, and the result that answers it gets it too.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::prompt::PromptEntry;

/// The longest id that all providers take.
const MAX_BYTES: usize = 64;

/// Gives repeated ids of calls a number, and results the ids of the calls that they answer. Results stand in the order of
/// their calls.
pub(crate) fn told_apart(mut said: Vec<PromptEntry<'_>>) -> Vec<PromptEntry<'_>> {
    if !has_repeats(&said) {
        return said;
    }
    let mut used: HashSet<String> = HashSet::new();
    let mut waiting: HashMap<String, VecDeque<String>> = HashMap::new();
    for entry in &mut said {
        match entry {
            PromptEntry::Agent(agent) => {
                // What an earlier message asked for and did not get is not answered any more.
                waiting.clear();
                for call in &mut agent.calls {
                    let id = free(&call.id, &used);
                    used.insert(id.clone());
                    let asked = waiting.entry(call.id.to_string()).or_default();
                    asked.push_back(id.clone());
                    call.id = Cow::Owned(id);
                }
            }
            PromptEntry::Result(answer) => {
                let asked = waiting.get_mut(answer.call_id.as_ref());
                if let Some(id) = asked.and_then(VecDeque::pop_front) {
                    answer.call_id = Cow::Owned(id);
                }
            }
            PromptEntry::System(_) | PromptEntry::User(_) => {}
        }
    }
    said
}

fn has_repeats(said: &[PromptEntry<'_>]) -> bool {
    let mut seen = HashSet::new();
    let mut calls = said.iter().flat_map(|entry| match entry {
        PromptEntry::Agent(agent) => agent.calls.as_slice(),
        _ => &[],
    });
    calls.any(|call| !seen.insert(call.id.as_ref()))
}

/// Returns the id, or the first with a number that is free.
fn free(id: &str, used: &HashSet<String>) -> String {
    if !used.contains(id) {
        return id.to_owned();
    }
    let mut numbered = (2_u32..).map(|number| {
        let number = format!("_{number}");
        let mut end = id.len().min(MAX_BYTES - number.len());
        while !id.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{number}", &id[..end])
    });
    numbered.find(|id| !used.contains(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::prompt::{Agent, Call, ToolAnswer};

    fn agent<'a>(ids: &[&'static str], arguments: &'a Value) -> PromptEntry<'a> {
        let call = |id: &&'static str| Call {
            id: (*id).into(),
            name: "t",
            arguments,
        };
        PromptEntry::Agent(Agent {
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

    fn ids(said: &[PromptEntry<'_>]) -> Vec<String> {
        let of = |entry: &PromptEntry<'_>| match entry {
            PromptEntry::Agent(agent) => {
                agent.calls.iter().map(|call| call.id.to_string()).collect()
            }
            PromptEntry::Result(answer) => vec![answer.call_id.to_string()],
            _ => Vec::new(),
        };
        said.iter().flat_map(of).collect()
    }

    #[test]
    fn each_call_has_an_id_of_its_own_and_its_result_has_the_same() {
        let none = json!({});
        let said = vec![
            agent(&["toolu_1", "toolu_1", "toolu_1_2"], &none),
            result("toolu_1"),
            result("toolu_1"),
            result("toolu_1_2"),
            agent(&["toolu_1"], &none),
            agent(&["toolu_1"], &none),
            result("toolu_1"),
            result("of nobody"),
        ];
        assert_eq!(
            ids(&told_apart(said)),
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
                "of nobody"
            ]
        );
    }

    #[test]
    fn ids_that_differ_stay_and_long_ones_stay_short_enough() {
        let none = json!({});
        let said = vec![agent(&["a", "b"], &none), result("b"), result("a")];
        assert_eq!(ids(&told_apart(said)), ["a", "b", "b", "a"]);
        let long: &'static str = "é".repeat(40).leak();
        let found = ids(&told_apart(vec![agent(&[long, long], &none)]));
        assert!(
            found[1].len() <= MAX_BYTES && found[1].ends_with("_2"),
            "{}",
            found[1]
        );
    }
}
