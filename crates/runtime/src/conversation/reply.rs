//! Replies of a conversation.

use std::fmt;

use serde_json::Value;
use windlass_core::error::Result;
use windlass_core::message::Message;
use windlass_core::typed_id::SessionId;

use super::error::ConversationError;
use crate::runtime::InProcessRuntime;
use crate::turn_result::TurnResult;

/// What a pending call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// The call waits to be approved or denied.
    Approval,
    /// The call waits for a result from the embedding program.
    Result,
}

/// A call for which the turn is parked.
///
/// ```
/// # use serde_json::json;
/// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
/// use windlass_runtime::{Conversation, Need, tool_fn};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let call = SimToolCall::new("launch", json!({}));
/// # let script = LlmSimConfig::scripted(vec![SimTurn::ToolCalls(vec![call]), SimTurn::Assistant("Afloat.".into())]);
/// let launch = tool_fn("launch", "Launches the boat", json!({ "type": "object" }), |_, _| async { Ok("splash") });
/// let builder = Conversation::builder().simulator(script).tool(launch.requires_approval());
/// let mut chat = builder.start().await?;
/// let waiting = chat.say("Launch her.").await?;
/// assert_eq!(waiting.pending[0].need, Need::Approval);
/// let reply = chat.approve(&waiting.pending[0]).await?;
/// assert_eq!(reply.text, "Afloat.");
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PendingCall {
    /// The provider's ID of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call, as JSON.
    pub arguments: Value,
    /// Whether the call needs an approval or a result.
    pub need: Need,
}

/// The agent's answer, or the calls for which the turn is parked.
///
/// ```
/// # use windlass_core::llmsim_driver::LlmSimConfig;
/// # use windlass_runtime::Conversation;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
/// let reply = chat.say("Hi").await?;
/// println!("{reply} ({} model calls)", reply.turn.iterations);
/// assert!(reply.pending.is_empty());
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The last text of the agent.
    pub text: String,
    /// Calls for which the turn is parked. If it is not empty, the turn has not ended.
    pub pending: Vec<PendingCall>,
    /// The complete result of the turn.
    pub turn: TurnResult,
}

/// The text, followed by the pending calls, if any.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        for (index, call) in self.pending.iter().enumerate() {
            if index > 0 || !self.text.is_empty() {
                f.write_str("\n")?;
            }
            let needed = match call.need {
                Need::Approval => "an approval",
                Need::Result => "a result",
            };
            write!(
                f,
                "(waits for {needed} of {} {})",
                call.name, call.arguments
            )?;
        }
        Ok(())
    }
}

impl Reply {
    /// Creates the reply of a turn that ended in any way or is parked.
    pub(super) async fn new(
        runtime: &InProcessRuntime,
        session_id: SessionId,
        turn: TurnResult,
    ) -> Result<Self> {
        let pending = match &turn.waiting_for {
            None => Vec::new(),
            Some(waiting) => {
                let history = runtime.inner.history(session_id).await?;
                let mut newest_first = history.iter().rev();
                let calling = newest_first.find(|message| message.has_tool_calls());
                let of = |ids: &[String], need| {
                    calling.map_or_else(Vec::new, |message| waiting_calls(message, ids, need))
                };
                let mut pending = of(&waiting.approvals, Need::Approval);
                pending.extend(of(&waiting.tool_results, Need::Result));
                pending
            }
        };
        Ok(Self {
            text: turn.response.clone(),
            pending,
            turn,
        })
    }

    /// Returns the reply, or an error if the turn ended without an answer.
    pub(super) fn or_stopped(self) -> std::result::Result<Self, ConversationError> {
        if self.turn.success || self.turn.waiting_for.is_some() {
            return Ok(self);
        }
        Err(ConversationError::Stopped(Box::new(self.turn)))
    }
}

fn waiting_calls(message: &Message, ids: &[String], need: Need) -> Vec<PendingCall> {
    let calls = message.tool_calls().into_iter();
    calls
        .filter(|call| ids.contains(&call.id))
        .map(|call| PendingCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            need,
        })
        .collect()
}
