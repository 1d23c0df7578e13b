//! One item.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::output::output;
use super::text::{cut, plain_text};
use crate::events::{Decision, ToolStatus};
use crate::mcp::McpFailure;
use crate::message::ContentPart;
use crate::tool_types::ToolShape;
use crate::typed_id::{ExecId, ItemId, TurnId};

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    UserMessage,
    AgentMessage,
    AgentReasoning,
    /// A call of a tool.
    ToolCall,
    /// A call that changes files.
    FileChange,
    /// A call that runs a command.
    CommandExecution,
    /// A new state of the agent's plan.
    Plan,
    /// A compaction of the history.
    ContextCompaction,
    /// A notice of the runtime.
    Status,
    /// A failure, shown instead of the agent's answer.
    Error,
}

impl From<ToolShape> for ItemKind {
    fn from(shape: ToolShape) -> Self {
        match shape {
            ToolShape::Call => Self::ToolCall,
            ToolShape::FileChange => Self::FileChange,
            ToolShape::Command => Self::CommandExecution,
            ToolShape::Plan => Self::Plan,
        }
    }
}

/// The progress of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// It has not ended.
    InProgress,
    Completed,
    Failed,
    /// An interrupt or a crash stopped it.
    Interrupted,
}

/// One item as an event or a fold of events shows it; borrows from them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item<'a> {
    /// Identifies the item: the uuid of its message or step.
    pub id: ItemId,
    /// The turn that it belongs to.
    pub turn_id: TurnId,
    pub kind: ItemKind,
    pub status: ItemStatus,
    /// The step that it shows, if it is not the user's.
    pub exec_id: Option<ExecId>,
    /// When it started, unless only its end is known.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// A stable code of the failure.
    pub error_code: Option<&'a str>,
    pub body: ItemBody<'a>,
}

/// The content of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ItemBody<'a> {
    /// No content yet, or none in this event.
    Empty,
    Text(&'a str),
    /// The parts of a message.
    Parts(&'a [ContentPart]),
    /// A call and its result.
    Tool(ToolItem<'a>),
    /// A compaction of the history.
    Compaction {
        /// The number of messages before.
        messages_before: usize,
        /// The number of messages after, once it is done.
        messages_after: Option<usize>,
        /// Whether compaction was automatic.
        auto: Option<bool>,
    },
    /// MCP servers that are not fully available.
    McpFailures(&'a [McpFailure]),
    /// A wait until a provider's rate limit resets.
    Wait {
        until: DateTime<Utc>,
    },
}

/// A call and its result.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ToolItem<'a> {
    /// The provider's id of the call.
    pub tool_call_id: &'a str,
    pub name: &'a str,
    /// The tool's name to show.
    pub display_name: Option<&'a str>,
    pub arguments: Option<&'a Value>,
    /// How it ended.
    pub status: Option<ToolStatus>,
    /// The parts of its result.
    pub result: Option<&'a [ContentPart]>,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The capability that contributes the tool.
    pub capability_id: Option<&'a str>,
    /// Whether an external client executes it.
    pub is_external: bool,
    /// Whether the result is a person's answer, meant for the model only; [`Item::detail`] does not show it.
    pub is_private: bool,
    /// Whether an external agent executed it and reported it.
    pub is_observed: bool,
    /// The approval decision, if one was required.
    pub approval: Option<Decision>,
}

impl<'a> Item<'a> {
    /// Returns whether the item has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.status != ItemStatus::InProgress
    }

    /// Returns the call that the item shows.
    #[must_use]
    pub fn tool(&self) -> Option<ToolItem<'a>> {
        match self.body {
            ItemBody::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Returns the item as text: a message's text; a call's arguments until it ends, its output afterwards.
    #[must_use]
    pub fn detail(&self) -> Cow<'a, str> {
        match self.body {
            ItemBody::Empty => Cow::Borrowed(""),
            ItemBody::Text(text) => Cow::Borrowed(text),
            ItemBody::Parts(parts) => plain_text(parts),
            ItemBody::Tool(tool) => tool.detail(),
            ItemBody::Compaction {
                messages_before,
                messages_after,
                auto,
            } => compaction(messages_before, messages_after, auto).into(),
            ItemBody::McpFailures(failures) => {
                let lines = failures.iter().map(McpFailure::to_string);
                lines.collect::<Vec<_>>().join("\n").into()
            }
            ItemBody::Wait { until } => {
                let until = until.to_rfc3339_opts(SecondsFormat::Secs, true);
                format!("The agent's provider limits it; it continues at {until}").into()
            }
        }
    }

    /// Returns the beginning of the item's text, at most [`SUMMARY_CHARS`](super::SUMMARY_CHARS) characters.
    #[must_use]
    pub fn summary(&self) -> Cow<'a, str> {
        let text = match self.body {
            ItemBody::Tool(tool) => tool.summary(self.status),
            _ => self.detail(),
        };
        cut(text)
    }

    /// Completes an item's end with data from its beginning.
    #[must_use]
    pub(super) fn after(self, opened: &Item<'a>) -> Self {
        let body = match (self.body, opened.body) {
            (ItemBody::Empty, body) => body,
            (ItemBody::Tool(tool), ItemBody::Tool(before)) => ItemBody::Tool(ToolItem {
                arguments: tool.arguments.or(before.arguments),
                display_name: tool.display_name.or(before.display_name),
                is_external: tool.is_external || before.is_external,
                is_observed: tool.is_observed || before.is_observed,
                ..tool
            }),
            (body, _) => body,
        };
        Self {
            started_at: opened.started_at.or(self.started_at),
            exec_id: self.exec_id.or(opened.exec_id),
            body,
            ..self
        }
    }
}

impl<'a> ToolItem<'a> {
    /// Returns the result's fields apart from the text that [`Item::detail`] shows, by name: an exit code, a path, a count.
    #[must_use]
    pub fn other_fields(&self) -> Vec<(&'a str, &'a Value)> {
        match (self.is_private, self.result, self.error) {
            (false, Some(parts), None) => output(parts).other_fields,
            _ => Vec::new(),
        }
    }

    fn detail(&self) -> Cow<'a, str> {
        match (self.is_private, self.result, self.error, self.arguments) {
            (true, ..) => Cow::Borrowed(ANSWERED),
            (_, _, Some(error), _) => Cow::Borrowed(error),
            (_, Some(parts), ..) => output(parts).text,
            (_, None, None, Some(arguments)) if self.status.is_none() => {
                arguments.to_string().into()
            }
            _ => Cow::Borrowed(""),
        }
    }

    fn summary(&self, status: ItemStatus) -> Cow<'a, str> {
        let name = self.display_name.unwrap_or(self.name);
        match status {
            _ if self.is_private => Cow::Borrowed(ANSWERED),
            ItemStatus::InProgress => format!("{name} started").into(),
            ItemStatus::Failed => format!("{name} failed: {}", self.detail()).into(),
            ItemStatus::Completed | ItemStatus::Interrupted => {
                format!("{name}: {}", self.detail()).into()
            }
        }
    }
}

/// Display text that replaces an answer meant only for the model.
pub(crate) const ANSWERED: &str = "User input submitted";

fn compaction(before: usize, after: Option<usize>, auto: Option<bool>) -> String {
    match after {
        Some(after) => {
            let removed = before.saturating_sub(after);
            format!("Compaction complete: {before} → {after} messages ({removed} removed)")
        }
        None if auto == Some(false) => "Manual context compaction started".to_owned(),
        None => "Context compaction started".to_owned(),
    }
}
