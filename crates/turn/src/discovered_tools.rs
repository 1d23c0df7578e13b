//! The deferred tools that a conversation has discovered: those that a search returned, and those that the model called by guess.
//!
//! The set depends only on the messages, so it is identical after a crash, in a fork and in a replay. Messages that a summary replaced still count.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::message::{ContentPart, Message, ToolResultContentPart};
use windlass_core::tools::TOOL_SEARCH;

use crate::plan::{CompactionPlan, TurnPlan};
use crate::state::Thread;

/// The tools that a conversation has mentioned so far, in a call or in a search result. The turn's plan determines which of them are deferred. The
/// set grows with the conversation, so that no turn reads all messages again.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DiscoveredTools {
    names: Vec<String>,
    seen: HashSet<String>,
    /// IDs of search calls. Some models reuse IDs, so an ID is removed when another call has it.
    searches: HashSet<String>,
}

impl DiscoveredTools {
    /// Adds the tools of the next message. The set is shared, so it is copied only if the message mentions a new tool.
    pub(crate) fn note(tools: &mut Arc<Self>, message: &Message) {
        for part in &message.content {
            match part {
                ContentPart::ToolCall(call) => {
                    Self::add(tools, &call.name);
                    let is_search = call.name == TOOL_SEARCH;
                    if is_search != tools.searches.contains(&call.id) {
                        let searches = &mut Arc::make_mut(tools).searches;
                        if is_search {
                            searches.insert(call.id.clone())
                        } else {
                            searches.remove(&call.id)
                        };
                    }
                }
                ContentPart::ToolResult(result)
                    if tools.searches.contains(&result.tool_call_id) =>
                {
                    names_in(result).for_each(|name| Self::add(tools, name));
                }
                _ => {}
            }
        }
    }

    fn add(tools: &mut Arc<Self>, name: &str) {
        if !tools.seen.contains(name) {
            let tools = Arc::make_mut(tools);
            tools.seen.insert(name.to_owned());
            tools.names.push(name.to_owned());
        }
    }

    /// Returns the deferred tools among them, in the order of their first mention.
    fn deferred<'a>(&'a self, plan: &'a TurnPlan) -> impl Iterator<Item = (&'a String, u64)> {
        let names = self.names.iter().filter(|_| !plan.deferred.is_empty());
        names.filter_map(|name| Some((name, *plan.deferred.get(name)?)))
    }

    fn tokens(&self, plan: &TurnPlan) -> u64 {
        let tokens = self.deferred(plan).map(|(_, tokens)| tokens);
        tokens.fold(0, u64::saturating_add)
    }
}

impl Thread {
    /// Returns the deferred tools that the conversation has discovered, in order of discovery.
    #[must_use]
    pub fn discovered_tools(&self, plan: &TurnPlan) -> Vec<String> {
        let discovered = self.history.mentioned_tools().deferred(plan);
        discovered.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the compaction settings of the plan, with the discovered tools as part of the prompt.
    #[must_use]
    pub fn compaction_plan(&self, plan: &TurnPlan) -> Option<CompactionPlan> {
        let compaction = plan.compaction?;
        let discovered = self.history.mentioned_tools().tokens(plan);
        Some(CompactionPlan {
            prompt_tokens: compaction.prompt_tokens.saturating_add(discovered),
            ..compaction
        })
    }
}

/// Returns the tokens of the deferred tools that messages mention.
pub(crate) fn tokens_of_discovered<'a>(
    messages: impl Iterator<Item = &'a Arc<Message>>,
    plan: &TurnPlan,
) -> u64 {
    if plan.deferred.is_empty() {
        return 0;
    }
    let mut tools = Arc::default();
    messages.for_each(|message| DiscoveredTools::note(&mut tools, message));
    tools.tokens(plan)
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
    use crate::transcript::Transcript;

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
        let plan = TurnPlan {
            deferred: Arc::new(names.map(|name| (name.to_owned(), 7)).into()),
            ..TurnPlan::default()
        };
        let mut tools = Arc::default();
        messages
            .iter()
            .for_each(|message| DiscoveredTools::note(&mut tools, message));
        let found: Vec<_> = tools.deferred(&plan).map(|(name, _)| name).collect();
        assert_eq!(found, expected);
        let tokens = tokens_of_discovered(messages.iter(), &plan);
        assert_eq!(tokens, 7 * expected.len() as u64);
    }

    #[test]
    fn search_results_are_listed_once_and_in_order() {
        let search = [
            calls("a", TOOL_SEARCH),
            result("a", &["lift", "haul", "gone"]),
        ];
        check(&search, &["lift", "haul"]);
        let again = [calls("b", TOOL_SEARCH), result("b", &["haul", "drop"])];
        check(&[search, again].concat(), &["lift", "haul", "drop"]);
    }

    #[test]
    fn guessed_call_discovers_its_tool() {
        check(&[calls("a", "drop"), calls("b", "shell")], &["drop"]);
    }

    #[test]
    fn discovered_tools_survive_a_summary_and_not_a_rewind() {
        let plan = TurnPlan {
            deferred: Arc::new([("lift".to_owned(), 7), ("drop".to_owned(), 7)].into()),
            ..TurnPlan::default()
        };
        let found = |transcript: &Transcript| -> Vec<String> {
            let found = transcript.mentioned_tools().deferred(&plan);
            found.map(|(name, _)| name.clone()).collect()
        };
        let mut transcript = Transcript::default();
        transcript.push(calls("a", TOOL_SEARCH));
        transcript.push(result("a", &["lift"]));
        let before = transcript.clone();
        transcript.summarise(1, Message::user("Something was found."), None, 0);
        transcript.push(calls("b", "drop"));
        assert_eq!(found(&transcript), ["lift", "drop"]);
        assert_eq!(found(&before), ["lift"]);
        assert_eq!(found(&transcript.truncated(2, 1)), ["lift"]);
        assert!(found(&transcript.truncated(1, 0)).is_empty());
        // The search call is retained, so its result counts when it arrives.
        let mut again = transcript.truncated(1, 0);
        again.push(result("a", &["drop"]));
        assert_eq!(found(&again), ["drop"]);
    }

    #[test]
    fn other_results_discover_nothing() {
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
