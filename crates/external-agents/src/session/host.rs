//! Requests from an agent to the host.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinSet};
use windlass_core::backend::{HostAccess, HostAccessError, TerminalExit};

use super::input::Input;
use crate::protocol::{HostCall, HostOperation};

/// Maximum open requests before the agent is no longer read.
const MAX_OPEN: usize = 64;
/// Open waits for a terminal's end. The agent may have to make another request before such a wait ends, so waits alone never
/// reach [`MAX_OPEN`].
const MAX_OPEN_WAITS: usize = 32;
/// Maximum large answers in memory; further requests for one wait until the agent has read enough.
const MAX_LARGE_ANSWERS: usize = 4;

/// The reply to one request, with the agent's ID of the request.
pub(super) type HostReply = (Value, Result<Value, HostAccessError>);

struct CompletedCall {
    answer: Result<Value, HostAccessError>,
    /// Released when the answer is in the agent's input buffer.
    _permit: Option<OwnedSemaphorePermit>,
}

struct PendingHostCall {
    request: Value,
    is_wait: bool,
}

/// The open requests.
pub(super) struct HostCalls {
    running: JoinSet<CompletedCall>,
    open: HashMap<Id, PendingHostCall>,
    large_answers: Arc<Semaphore>,
}

impl HostCalls {
    pub(super) fn new() -> Self {
        Self {
            running: JoinSet::new(),
            open: HashMap::new(),
            large_answers: Arc::new(Semaphore::new(MAX_LARGE_ANSWERS)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    /// Starts a request; returns the reply if it is refused.
    pub(super) fn start(
        &mut self,
        host: Option<Arc<dyn HostAccess>>,
        call: HostCall,
    ) -> Option<HostReply> {
        let HostCall { request, operation } = call;
        let is_wait = matches!(operation, HostOperation::WaitForTerminal(_));
        let refused = |why: &str| Err(HostAccessError::NotAllowed(why.to_owned()));
        let Some(host) = host else {
            return Some((request, refused("the host does not offer this operation")));
        };
        let open_waits = self.open.values().filter(|open| open.is_wait).count();
        if is_wait && open_waits >= MAX_OPEN_WAITS {
            return Some((request, refused("too many waits for terminals are open")));
        }
        let large_answers = Arc::clone(&self.large_answers);
        let started = self.running.spawn(async move {
            let permit = match &operation {
                HostOperation::Read { .. } | HostOperation::TerminalOutput(_) => {
                    large_answers.acquire_owned().await.ok()
                }
                _ => None,
            };
            CompletedCall {
                answer: perform(host.as_ref(), operation).await,
                _permit: permit,
            }
        });
        self.open
            .insert(started.id(), PendingHostCall { request, is_wait });
        None
    }

    /// Waits for a request to end and for the input to have room for its answer. Returns `None` if none is open. Cancel safe.
    pub(super) async fn next(&mut self, input: &Input) -> Option<HostReply> {
        if self.running.is_empty() {
            return None;
        }
        input.room().await;
        let (task, answer) = match self.running.join_next_with_id().await? {
            Ok((task, performed)) => (task, performed.answer),
            Err(error) => {
                let why = if error.is_cancelled() {
                    "the turn is over"
                } else {
                    "the host failed"
                };
                (error.id(), Err(HostAccessError::Failed(why.to_owned())))
            }
        };
        let open = self.open.remove(&task)?;
        Some((open.request, answer))
    }

    pub(super) fn abort_all(&mut self) {
        self.running.abort_all();
    }
}

/// Performs the operation and converts the answer to ACP form.
async fn perform(
    host: &dyn HostAccess,
    operation: HostOperation,
) -> Result<Value, HostAccessError> {
    let answer = match operation {
        HostOperation::Read { path, line, limit } => {
            json!({"content": host.read_text(&path, line, limit).await?})
        }
        HostOperation::Write { path, text } => {
            host.write_text(&path, &text).await?;
            Value::Null
        }
        HostOperation::StartTerminal(request) => {
            json!({"terminalId": host.start_terminal(request).await?})
        }
        HostOperation::TerminalOutput(id) => {
            let output = host.terminal_output(&id).await?;
            let exit = output.exit.as_ref().map(exit_json);
            json!({"output": output.text, "truncated": output.is_cut, "exitStatus": exit})
        }
        HostOperation::WaitForTerminal(id) => exit_json(&host.wait_for_terminal(&id).await?),
        HostOperation::KillTerminal(id) => {
            host.kill_terminal(&id).await?;
            json!({})
        }
        HostOperation::ReleaseTerminal(id) => {
            host.release_terminal(&id).await?;
            json!({})
        }
    };
    Ok(answer)
}

fn exit_json(exit: &TerminalExit) -> Value {
    json!({"exitCode": exit.code, "signal": exit.signal})
}
