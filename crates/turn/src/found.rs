//! Which deferred tools a conversation has found: those that a search returned, and those that the model called by guess.
//!
//! It follows from what was said and from nothing else, so it is the same after a crash, in a fork and in a replay. A summary
//! takes nothing away: everything that was said counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::message::{ContentPart, Message, ToolResultContentPart};
use windlass_core::tools::TOOL_SEARCH;

use crate::plan::{CompactionPlan, TurnPlan};
use crate::state::Thread;

impl Thread {
    /// Returns the deferred tools that the conversation has found, in the order in which it did.
    #[must_use]
    pub fn found_tools(&self, plan: &TurnPlan) -> Vec<String> {
        let found = found(self.history().iter(), &plan.deferred).into_iter();
        found.map(str::to_owned).collect()
    }

    /// Returns when the history is made shorter, with the tools that were found among what is sent before it.
    #[must_use]
    pub fn compaction_plan(&self, plan: &TurnPlan) -> Option<CompactionPlan> {
        let compaction = plan.compaction?;
        let found = tokens_of_found(self.history().iter(), plan);
        Some(CompactionPlan {
            prompt_tokens: compaction.prompt_tokens.saturating_add(found),
            ..compaction
        })
    }
}

/// Returns how many tokens the tools take that some messages found.
pub(crate) fn tokens_of_found<'a>(
    messages: impl Iterator<Item = &'a Arc<Message>>,
    plan: &TurnPlan,
) -> u64 {
    let found = found(messages, &plan.deferred).into_iter();
    let tokens = found.filter_map(|name| plan.deferred.get(name));
    tokens.fold(0, |sum, tokens| sum.saturating_add(*tokens))
}

fn found<'a>(
    messages: impl Iterator<Item = &'a Arc<Message>>,
    deferred: &HashMap<String, u64>,
) -> Vec<&'a str> {
    if deferred.is_empty() {
        return Vec::new();
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |name: &'a str| {
        if deferred.contains_key(name) && seen.insert(name) {
            found.push(name);
        }
    };
    // Some models use the id of a call again, so an id is that of a search until the next call has it.
    let mut searches = HashSet::new();
    for part in messages.flat_map(|message| &message.content) {
        match part {
            ContentPart::ToolCall(call) => {
                add(&call.name);
                match call.name == TOOL_SEARCH {
                    true => searches.insert(call.id.as_str()),
                    false => searches.remove(call.id.as_str()),
                };
            }
            ContentPart::ToolResult(result) if searches.contains(result.tool_call_id.as_str()) => {
                names_in(result).for_each(&mut add);
            }
            _ => {}
        }
    }
    found
}

fn names_in(result: &ToolResultContentPart) -> impl Iterator<Item = &str> {
    let tools = result.result.as_ref().and_then(|value| value.get("tools"));
    let tools = tools.and_then(|tools| tools.as_array()).into_iter();
    tools
        .flatten()
        .filter_map(|tool| tool.get("name")?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_core::message::ToolCallContentPart;

    use super::*;

    fn calls(id: &str, name: &str) -> Arc<Message> {
        let part = ContentPart::ToolCall(ToolCallContentPart {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: json!({}),
        });
        let mut message = Message::assistant("");
        message.content = vec![part];
        Arc::new(message)
    }

    fn result(id: &str, names: &[&str]) -> Arc<Message> {
        let tools: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        Arc::new(Message::tool_result(
            id,
            Some(json!({ "tools": tools })),
            None,
        ))
    }

    fn check(messages: &[Arc<Message>], expected: &[&str]) {
        let names = ["haul", "drop", "lift"];
        let deferred = names.map(|name| (name.to_owned(), 7)).into();
        assert_eq!(found(messages.iter(), &deferred), expected);
    }

    #[test]
    fn what_a_search_returned_is_found_once_and_in_order() {
        let search = [
            calls("a", TOOL_SEARCH),
            result("a", &["lift", "haul", "gone"]),
        ];
        check(&search, &["lift", "haul"]);
        let again = [calls("b", TOOL_SEARCH), result("b", &["haul", "drop"])];
        check(&[search, again].concat(), &["lift", "haul", "drop"]);
    }

    #[test]
    fn a_call_by_guess_finds_its_tool() {
        check(&[calls("a", "drop"), calls("b", "shell")], &["drop"]);
    }

    #[test]
    fn no_other_result_finds_anything() {
        check(&[calls("a", "shell"), result("a", &["haul"])], &[]);
        check(&[calls("a", TOOL_SEARCH), result("b", &["haul"])], &[]);
        let reused = [
            calls("a", TOOL_SEARCH),
            result("a", &[]),
            calls("a", "shell"),
        ];
        check(
            &[reused.as_slice(), &[result("a", &["haul"])]].concat(),
            &[],
        );
        for odd in [json!("haul"), json!({"tools": "haul"}), json!([["haul"]])] {
            let odd = Arc::new(Message::tool_result("a", Some(odd), None));
            check(&[calls("a", TOOL_SEARCH), odd], &[]);
        }
    }
}
