//! `run_agent`: runs one turn from its prompt to its end.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::bounds::lines;
use windlass_protocol::{
    ApprovalDecision, Call, CreateThread, EventPayload, Item, ItemKind, Mode, RuntimeEventEnvelope,
    StartTurn, Status, Thread, Turn,
};

use super::result::{LIMIT, ToolRefusal, beginning, clean, texts};
use super::tools::{McpTools, RunAgentArguments, read};
use crate::client::calls;
use crate::client::follow::{self, EventFollower, FollowStep};
use crate::client::thread_session::{
    ASKING_TOOL, in_environment, is_settled, send_answer, unattended_answers,
};
use crate::stdio_rpc::{Peer, title};
use crate::terminal::{QuestionAnswer, ShownCall, approval_call, decision, main_argument};

/// Maximum number of denied calls in a result.
const MAX_REFUSED: usize = 20;
/// The reason for denied calls.
const UNATTENDED: &str = "no user can be asked; the operator's approval rules or `windlass mcp serve --yes` can allow it";

/// Reports a call's progress if the caller asked for it.
pub(super) struct CallProgress {
    peer: Peer,
    token: Option<Value>,
    count: u64,
}

impl CallProgress {
    pub(super) fn new(peer: &Peer, token: &Value) -> Self {
        let is_token = token.is_string() || token.is_number();
        Self {
            peer: peer.clone(),
            token: is_token.then(|| token.clone()),
            count: 0,
        }
    }

    fn report(&mut self, message: &str) {
        let Some(token) = &self.token else { return };
        self.count += 1;
        let params =
            json!({ "progressToken": token, "progress": self.count, "message": title(message) });
        self.peer.notify("notifications/progress", &params);
    }
}

impl McpTools {
    /// Runs a turn; `None` if the caller canceled.
    pub(super) async fn run_agent(
        &self,
        arguments: Value,
        progress: CallProgress,
        canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, ToolRefusal> {
        let arguments: RunAgentArguments = read(arguments)?;
        self.daemon.ensure_connected().await?;
        if arguments.prompt.trim().is_empty() {
            return Err(ToolRefusal::new("prompt_required", "the prompt is blank"));
        }
        let thread = match &arguments.thread_id {
            Some(id) => self.continued_thread(id, &arguments).await?,
            None => self.new_thread(&arguments).await?,
        };
        let id = thread.id.clone();
        let done = self.run_on(thread, &arguments, progress, canceled).await;
        // An error includes the thread's ID, so that the caller can continue in that thread.
        Ok(done.unwrap_or_else(|refusal| Some(refusal.result_with(json!({ "thread_id": id })))))
    }

    async fn run_on(
        &self,
        thread: Thread,
        arguments: &RunAgentArguments,
        mut progress: CallProgress,
        mut canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, ToolRefusal> {
        if *canceled.borrow() {
            return Ok(None);
        }
        let newest = calls::newest_turns(&*self.daemon.api(), &thread.id, 0).await?;
        let events = EventFollower::after(&self.daemon, &thread.id, newest.latest_seq).await?;
        let turn = self.start(&thread, arguments).await?;
        progress.report(&format!("thread {}", thread.id));
        let turn = AwaitedTurn {
            tools: self,
            thread,
            turn_id: turn.id,
            events,
            answer: String::new(),
            calls: HashMap::new(),
            open: Vec::new(),
            refused: Vec::new(),
        };
        turn.watch(&mut progress, &mut canceled).await
    }

    async fn new_thread(&self, arguments: &RunAgentArguments) -> Result<Thread, ToolRefusal> {
        let cwd = self.cwd(arguments.cwd.as_deref())?;
        let environment = self.daemon.environment(&cwd).await?;
        let request = CreateThread {
            environments: Some(vec![in_environment(environment, &cwd)]),
            model: arguments.model.clone().or_else(|| self.model.clone()),
            backend: arguments.backend.clone().or_else(|| self.backend.clone()),
            ..CreateThread::default()
        };
        Ok(self
            .daemon
            .api()
            .create_thread(Call::new((), request))
            .await?)
    }

    async fn continued_thread(
        &self,
        id: &str,
        arguments: &RunAgentArguments,
    ) -> Result<Thread, ToolRefusal> {
        if arguments.cwd.is_some() || arguments.backend.is_some() {
            let message = "a thread keeps its directory and its agent: omit cwd and backend";
            return Err(ToolRefusal::field(message));
        }
        let thread = self.thread(id).await?;
        self.check_roots(&thread).await?;
        Ok(calls::resume(&*self.daemon.api(), id).await?)
    }

    /// Starts the turn of a call.
    async fn start(
        &self,
        thread: &Thread,
        arguments: &RunAgentArguments,
    ) -> Result<Turn, ToolRefusal> {
        let is_earlier = arguments.thread_id.is_some();
        let turn = StartTurn {
            prompt: arguments.prompt.clone(),
            model: arguments.model.clone().filter(|_| is_earlier),
            // A thread whose mode approves everything does not pass that right on to this client.
            mode: (thread.mode == Mode::Yolo && !self.approves_all).then_some(Mode::Agent),
            auto_approve: Some(self.approves_all),
            disallowed_tools: Some(vec![ASKING_TOOL.to_owned()]),
            ..StartTurn::default()
        };
        let start = follow::start_turn(&self.daemon, &thread.id, turn).await??;
        Ok(start.turn)
    }
}

/// A turn whose result the caller waits for.
struct AwaitedTurn<'a> {
    tools: &'a McpTools,
    thread: Thread,
    turn_id: String,
    events: EventFollower,
    /// The agent's last message.
    answer: String,
    /// The tool calls by item ID.
    calls: HashMap<String, ShownCall>,
    /// Approvals and questions that are not answered yet.
    open: Vec<AnsweredQuestion>,
    /// The denied calls.
    refused: Vec<String>,
}

/// An approval or a question of a tool, with its answer.
struct AnsweredQuestion {
    id: String,
    answer: QuestionAnswer,
    /// The call that the answer denies, if any.
    denied: Option<String>,
}

impl AwaitedTurn<'_> {
    async fn watch(
        mut self,
        progress: &mut CallProgress,
        canceled: &mut watch::Receiver<bool>,
    ) -> Result<Option<Value>, ToolRefusal> {
        let mut is_stopping = false;
        loop {
            if let Err(refusal) = self.settle().await
                && !is_stopping
            {
                // Without an answer, the turn would wait forever.
                self.interrupt().await;
                return Err(refusal);
            }
            let next = tokio::select! {
                biased;
                () = cancel_of(canceled), if !is_stopping => {
                    is_stopping = true;
                    self.interrupt().await;
                    continue;
                }
                next = self.events.next() => next?,
            };
            let FollowStep::Event(event) = next else {
                self.events.reconnect().await?;
                if is_stopping {
                    self.interrupt().await;
                }
                continue;
            };
            if event.turn_id.as_deref() != Some(&self.turn_id) {
                continue;
            }
            if let EventPayload::TurnCompleted(ended) = &event.payload {
                return Ok((!is_stopping).then(|| self.result(&ended.turn)));
            }
            self.apply(*event, progress);
        }
    }

    /// Updates the state with an event.
    fn apply(&mut self, event: RuntimeEventEnvelope, progress: &mut CallProgress) {
        match event.payload {
            EventPayload::ItemStarted(start) => {
                if let Some(call) = start.tool.map(ShownCall::from) {
                    progress.report(&format!("calls {}", describe_call(&call)));
                    self.calls.insert(start.item.id, call);
                }
            }
            EventPayload::ApprovalRequired(approval) => {
                let announced = self.calls.get(&approval.item_id);
                let call = approval_call(&approval.tool_name, &approval.description, announced);
                let is_allowed = self.tools.approves_all;
                let decided = if is_allowed {
                    ApprovalDecision::Allow
                } else {
                    ApprovalDecision::Deny
                };
                self.open.push(AnsweredQuestion {
                    id: approval.id,
                    answer: QuestionAnswer::Approval(decision(decided)),
                    denied: (!is_allowed).then(|| describe_call(&call)),
                });
            }
            EventPayload::UserInputRequired(input) => self.open.push(AnsweredQuestion {
                answer: QuestionAnswer::Input(unattended_answers(&input.request)),
                id: input.id,
                denied: None,
            }),
            EventPayload::ItemCompleted(ended)
            | EventPayload::ItemFailed(ended)
            | EventPayload::ItemInterrupted(ended) => self.apply_item(ended.item, progress),
            _ => {}
        }
    }

    fn apply_item(&mut self, item: Item, progress: &mut CallProgress) {
        let text = item.detail.unwrap_or_default();
        match item.kind {
            ItemKind::AgentMessage if !text.trim().is_empty() => {
                progress.report(&format!("says {text}"));
                self.answer = text;
            }
            ItemKind::AgentMessage | ItemKind::UserMessage => {}
            ItemKind::AgentReasoning => progress.report("thought"),
            _ => {
                let how = match item.status {
                    Status::Completed => "done",
                    Status::Interrupted | Status::Canceled => "stopped",
                    _ => "failed",
                };
                let call = self.calls.get(&item.id);
                let what = call.map_or(item.summary, describe_call);
                progress.report(&format!("{how}: {what}"));
            }
        }
    }

    /// Answers open approvals and questions: there is no user to answer them.
    async fn settle(&mut self) -> Result<(), ToolRefusal> {
        while let Some(question) = self.open.pop() {
            let api = self.tools.daemon.api();
            let (thread_id, id) = (&self.thread.id, &question.id);
            match send_answer(&*api, thread_id, id, &question.answer).await {
                Ok(()) => self.refused.extend(question.denied),
                // The connection is restored while waiting for events; then the next daemon gets the answer.
                Err(error) if error.is_lost() => {
                    self.open.push(question);
                    return Ok(());
                }
                Err(error) if is_settled(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn interrupt(&mut self) {
        let api = self.tools.daemon.api();
        // The turn may have ended in the meantime; then there is nothing to interrupt.
        let _ = calls::interrupt(&*api, &self.thread.id, &self.turn_id).await;
    }

    fn result(&self, turn: &Turn) -> Value {
        let answer = beginning(&lines(&self.answer), LIMIT);
        let listed = self.refused.iter().take(MAX_REFUSED);
        let data = clean(json!({
            "thread_id": self.thread.id,
            "turn_id": turn.id,
            "status": turn.status,
            "usage": turn.usage,
            "refused": listed.collect::<Vec<_>>(),
            "refused_count": self.refused.len(),
        }));
        let refusal = match turn.status {
            Status::Completed => None,
            Status::Interrupted | Status::Canceled => {
                Some(ToolRefusal::new("interrupted", "the turn was stopped"))
            }
            _ => {
                let code = turn.error_code.as_deref().unwrap_or("internal");
                let cause = turn.error.as_deref().unwrap_or("the turn failed");
                Some(ToolRefusal::new(code, cause))
            }
        };
        let mut result = match refusal {
            Some(refusal) => refusal.result_with(data),
            None => {
                let mut main_argument = format!("thread_id: {}", self.thread.id);
                if let Some(usage) = &turn.usage {
                    let (read, written) = (usage.input_tokens, usage.output_tokens);
                    main_argument.push_str(&format!("\ntokens: {read} read, {written} written"));
                }
                for call in data["refused"].as_array().into_iter().flatten() {
                    let call = call.as_str().unwrap_or_default();
                    main_argument.push_str(&format!("\nrefused: {call} ({UNATTENDED})"));
                }
                let left = self.refused.len().saturating_sub(MAX_REFUSED);
                if left > 0 {
                    main_argument.push_str(&format!("\nrefused: {left} more calls"));
                }
                let text = if answer.is_empty() {
                    "[the agent gave no answer]"
                } else {
                    &answer
                };
                let mut result = texts(&[text, &main_argument]);
                result["structuredContent"] = data;
                result
            }
        };
        result["structuredContent"]["answer"] = answer.into();
        result
    }
}

/// Waits until the call is canceled. The sender exists as long as the call.
async fn cancel_of(canceled: &mut watch::Receiver<bool>) {
    let _ = canceled.wait_for(|is_canceled| *is_canceled).await;
}

/// Describes a call in one line: the tool and its main argument.
fn describe_call(call: &ShownCall) -> String {
    title(format!("{} {}", call.name, main_argument(&call.input)).trim_end())
}

#[cfg(test)]
mod tests {
    use windlass_protocol::CallError;
    use windlass_protocol::ErrorCode;

    use super::*;

    #[test]
    fn only_settled_questions_are_dropped() {
        let refused = |code: ErrorCode| {
            let body = json!({ "error": { "code": code, "message": "no", "status": 400 } });
            CallError::Refused(Box::new(serde_json::from_value(body).unwrap()))
        };
        for (code, is_gone) in [
            (ErrorCode::ApprovalNotPending, true),
            (ErrorCode::UserInputNotPending, true),
            (ErrorCode::Unauthorized, false),
            (ErrorCode::Internal, false),
        ] {
            assert_eq!(is_settled(&refused(code)), is_gone, "{code:?}");
        }
        let broken = CallError::InvalidRequest("x".to_owned());
        assert!(!is_settled(&broken));
    }
}
