//! The agent's plan as a checklist.

use serde::{Deserialize, Serialize};
use windlass_core::bounds::one_line;
use windlass_protocol::Item;

use super::proposal::StyledLine;
use super::tool_call::ShownCall;
use super::{Colour, Style};

/// A step of a plan, in the form of ACP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    #[serde(default = "medium")]
    pub(crate) priority: String,
    pub(crate) status: PlanStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

fn medium() -> String {
    "medium".to_owned()
}

impl PlanEntry {
    /// Returns the steps of a plan item; none if they have another form.
    pub(crate) fn all(item: &Item) -> Vec<Self> {
        let call = ShownCall::from_item(item);
        let entries = call.and_then(|mut call| Some(call.input.get_mut("entries")?.take()));
        entries
            .and_then(|entries| serde_json::from_value(entries).ok())
            .unwrap_or_default()
    }
}

/// Returns the checklist of a plan item, one line for each step.
pub(super) fn checklist(item: &Item, style: Style) -> Vec<StyledLine> {
    let lines = PlanEntry::all(item).into_iter().map(|entry| {
        let (mark, colour) = match (entry.status, style.has_unicode) {
            (PlanStatus::Pending, true) => ("☐", Colour::Plain),
            (PlanStatus::InProgress, true) => ("◐", Colour::Bold),
            (PlanStatus::Completed, true) => ("☑", Colour::Dim),
            (PlanStatus::Pending, false) => ("[ ]", Colour::Plain),
            (PlanStatus::InProgress, false) => ("[>]", Colour::Bold),
            (PlanStatus::Completed, false) => ("[x]", Colour::Dim),
        };
        let content = style.unmarked(&one_line(&entry.content), &mut None);
        (colour, format!("{mark} {content}"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn lines(input: &Value) -> Vec<String> {
        let item: Item = serde_json::from_value(json!({
            "schema_version": 1, "id": "item_1", "turn_id": "turn_1", "kind": "plan", "status": "completed",
            "summary": "update_plan", "metadata": { "tool": { "name": "update_plan", "input": input } },
        }))
        .unwrap();
        let style = Style {
            has_unicode: true,
            ..Style::PLAIN
        };
        let lines = checklist(&item, style).into_iter();
        lines.map(|(_, line)| line).collect()
    }

    #[test]
    fn plan_is_a_checklist() {
        let plan = json!({ "entries": [
            { "content": "Read", "status": "completed" },
            { "content": "Write\x1b[2J\nmore", "status": "in_progress", "priority": "high" },
            { "content": "Test", "status": "pending" },
        ] });
        assert_eq!(
            lines(&plan),
            ["☑ Read", "◐ Write\\u{1b}[2J\\nmore", "☐ Test"]
        );
        assert!(lines(&json!({ "entries": "none" })).is_empty());
        assert!(lines(&json!(null)).is_empty());
    }
}
