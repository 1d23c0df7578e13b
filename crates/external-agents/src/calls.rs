//! Tool calls that an agent makes on its own. Each starts once and ends at most once, even if the agent repeats or omits reports.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use windlass_core::backend::{BackendEvent, ObservedCall, ObservedResult};
use windlass_core::tools::PLAN_TOOL;

use crate::json::{capped, cut_text};
use crate::protocol::Step;

/// Maximum tracked calls per turn; further calls are not reported.
const MAX_CALLS: usize = 16_384;
/// Maximum length of a call's name; longer names are truncated.
const MAX_NAME_BYTES: usize = 256;
/// Maximum output reported while a call runs; its end contains the complete output.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    started: HashSet<String>,
    ended: HashSet<String>,
    /// Names of calls that were announced but have not started, by call ID.
    names: HashMap<String, String>,
    /// Bytes of output reported so far, by call ID.
    reported: HashMap<String, usize>,
}

impl Calls {
    pub(crate) fn begin_turn(&mut self) {
        *self = Self::default();
    }

    /// Returns whether the turn made any call.
    pub(crate) fn any(&self) -> bool {
        !self.started.is_empty()
    }

    /// Records the name of a call that has not started.
    pub(crate) fn name(&mut self, id: &str, name: &str) {
        if self.names.len() < MAX_CALLS {
            let name = cut_text(name, MAX_NAME_BYTES);
            self.names.insert(id.to_owned(), name);
        }
    }

    pub(crate) fn start(&mut self, mut call: ObservedCall) -> Option<Step> {
        if self.started.len() >= MAX_CALLS || !self.started.insert(call.id.clone()) {
            return None;
        }
        call.name = cut_text(&call.name, MAX_NAME_BYTES);
        call.arguments = capped(call.arguments);
        Some(Step::Event(BackendEvent::ToolStarted(call)))
    }

    /// Reports a plan as a call of our tool.
    pub(crate) fn plan(&mut self, entries: &Value) -> Vec<Step> {
        let id = format!("plan_{}", self.started.len());
        let started = self.start(ObservedCall {
            id: id.clone(),
            name: PLAN_TOOL.to_owned(),
            arguments: json!({ "entries": entries }),
            parent: None,
        });
        let ended = self.end(&id, json!({}), false);
        started.into_iter().chain(ended).collect()
    }

    /// Starts a call known only by its ID, unless it has already started.
    fn start_unseen(&mut self, id: &str) -> Option<Step> {
        let name = self.names.get(id).cloned();
        self.start(ObservedCall {
            id: id.to_owned(),
            name: name.unwrap_or_else(|| "unknown".to_owned()),
            arguments: Value::Null,
            parent: None,
        })
    }

    pub(crate) fn output(&mut self, id: &str, text: &str) -> Vec<Step> {
        let started = self.start_unseen(id);
        let is_open = self.started.contains(id) && !self.ended.contains(id);
        if !is_open {
            return started.into_iter().collect();
        }
        let reported = self.reported.entry(id.to_owned()).or_default();
        let text = cut_text(text, MAX_OUTPUT_BYTES - *reported);
        *reported += text.len();
        let output = (!text.is_empty()).then(|| {
            Step::Event(BackendEvent::ToolOutput {
                call_id: id.to_owned(),
                text,
            })
        });
        started.into_iter().chain(output).collect()
    }

    pub(crate) fn end(&mut self, id: &str, output: Value, is_error: bool) -> Vec<Step> {
        let started = self.start_unseen(id);
        let is_new = self.started.contains(id) && self.ended.insert(id.to_owned());
        let ended = is_new.then(|| {
            Step::Event(BackendEvent::ToolCompleted(ObservedResult {
                call_id: id.to_owned(),
                output: capped(output),
                is_error,
            }))
        });
        started.into_iter().chain(ended).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plan_is_a_complete_call_of_our_tool() {
        let mut calls = Calls::default();
        let entries = json!([{ "content": "Read", "priority": "high", "status": "pending" }]);
        let first = calls.plan(&entries);
        let [
            Step::Event(BackendEvent::ToolStarted(call)),
            Step::Event(BackendEvent::ToolCompleted(result)),
        ] = &first[..]
        else {
            panic!("{first:?}");
        };
        assert_eq!(call.name, PLAN_TOOL);
        assert_eq!(call.arguments, json!({ "entries": entries }));
        assert_eq!(result.call_id, call.id);
        assert_eq!(
            calls.plan(&json!([])).len(),
            2,
            "another plan is another call"
        );
    }
}
