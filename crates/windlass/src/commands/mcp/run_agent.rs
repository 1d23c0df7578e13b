//! `run_agent`: runs one turn from its prompt to its end.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::bounds::lines;
use windlass_protocol::{
    ApprovalDecision, Call, CreateThread, DecideApproval, EventPayload, Item, ItemKind, Mode,
    RuntimeEventEnvelope, StartTurn, Status, Thread, Turn, UserInputAnswers,
};

use super::answer::{LIMIT, Refusal, beginning, clean, texts};
use super::look::cut;
use super::tools::{RunAgent, Tools};
use crate::calls;
use crate::follow::{self, Follower, Next};
use crate::stdio_rpc::Peer;
use crate::terminal::{ToolCall, about, asked, decision};
use crate::thread_session::{
    ASKING_TOOL, answer_input, decide_approval, in_environment, is_settled, unanswered,
};

/// Maximum number of denied calls in a result.
const MAX_REFUSED: usize = 20;
/// The reason for denied calls.
const NOBODY: &str =
    "nobody is here to ask; the operator's approval rules or `windlass mcp serve --yes` allow it";

/// Reports a call's progress if the caller asked for it.
pub(super) struct Progress {
    peer: Peer,
    token: Option<Value>,
    count: u64,
}

impl Progress {
    pub(super) fn new(peer: &Peer, token: &Value) -> Self {
        let is_token = token.is_string() || token.is_number();
        Self {
            peer: peer.clone(),
            token: is_token.then(|| token.clone()),
            count: 0,
        }
    }

    fn tell(&mut self, message: &str) {
        let Some(token) = &self.token else { return };
        self.count += 1;
        let params =
            json!({ "progressToken": token, "progress": self.count, "message": cut(message) });
        self.peer.notify("notifications/progress", &params);
    }
}

impl Tools {
    /// Runs a turn; `None` if the caller canceled.
    pub(super) async fn run(
        &self,
        wanted: RunAgent,
        progress: Progress,
        canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, Refusal> {
        if wanted.prompt.trim().is_empty() {
            return Err(Refusal::new("prompt_required", "the prompt is blank"));
        }
        let thread = match &wanted.thread_id {
            Some(id) => self.earlier(id, &wanted).await?,
            None => self.new_thread(&wanted).await?,
        };
        let id = thread.id.clone();
        let done = self.run_on(thread, &wanted, progress, canceled).await;
        // An error includes the thread's ID, so that the caller can continue in that thread.
        Ok(done.unwrap_or_else(|refusal| Some(refusal.result_with(json!({ "thread_id": id })))))
    }

    async fn run_on(
        &self,
        thread: Thread,
        wanted: &RunAgent,
        mut progress: Progress,
        mut canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, Refusal> {
        if *canceled.borrow() {
            return Ok(None);
        }
        let newest = calls::newest_turns(&*self.link.api(), &thread.id, 0).await?;
        let events = Follower::after(&self.link, &thread.id, newest.latest_seq).await?;
        let turn = self.started(&thread, wanted).await?;
        progress.tell(&format!("thread {}", thread.id));
        let turn = Watched {
            tools: self,
            thread,
            turn_id: turn.id,
            events,
            answer: String::new(),
            calls: HashMap::new(),
            open: Vec::new(),
            refused: Vec::new(),
        };
        turn.watched(&mut progress, &mut canceled).await
    }

    async fn new_thread(&self, wanted: &RunAgent) -> Result<Thread, Refusal> {
        let cwd = self.cwd(wanted.cwd.as_deref())?;
        let environment = self.link.environment(&cwd).await?;
        let request = CreateThread {
            environments: Some(vec![in_environment(environment, &cwd)]),
            model: wanted.model.clone().or_else(|| self.model.clone()),
            backend: wanted.backend.clone().or_else(|| self.backend.clone()),
            ..CreateThread::default()
        };
        Ok(self
            .link
            .api()
            .create_thread(Call::new((), request))
            .await?)
    }

    async fn earlier(&self, id: &str, wanted: &RunAgent) -> Result<Thread, Refusal> {
        if wanted.cwd.is_some() || wanted.backend.is_some() {
            let message = "a thread keeps its directory and its agent: leave cwd and backend out";
            return Err(Refusal::field(message));
        }
        let thread = self.thread(id).await?;
        self.check_roots(&thread).await?;
        Ok(calls::resume(&*self.link.api(), id).await?)
    }

    /// Starts the turn of a call.
    async fn started(&self, thread: &Thread, wanted: &RunAgent) -> Result<Turn, Refusal> {
        let is_earlier = wanted.thread_id.is_some();
        let turn = StartTurn {
            prompt: wanted.prompt.clone(),
            model: wanted.model.clone().filter(|_| is_earlier),
            // A thread whose mode approves everything does not pass that right on to this client.
            mode: (thread.mode == Mode::Yolo && !self.is_all_allowed).then_some(Mode::Agent),
            auto_approve: Some(self.is_all_allowed),
            disallowed_tools: Some(vec![ASKING_TOOL.to_owned()]),
            ..StartTurn::default()
        };
        let started = follow::start_turn(&self.link, &thread.id, turn).await??;
        Ok(started.turn)
    }
}

/// A turn whose result the caller waits for.
struct Watched<'a> {
    tools: &'a Tools,
    thread: Thread,
    turn_id: String,
    events: Follower,
    /// The agent's last message.
    answer: String,
    /// The tool calls by item ID.
    calls: HashMap<String, ToolCall>,
    /// Approvals and questions that are not answered yet.
    open: Vec<Question>,
    /// The denied calls.
    refused: Vec<String>,
}

/// An approval or a question, with the answer to it.
struct Question {
    id: String,
    answer: QuestionAnswer,
    /// The call that the answer denies, if any.
    refuses: Option<String>,
}

enum QuestionAnswer {
    Approval(DecideApproval),
    Input(UserInputAnswers),
}

impl Watched<'_> {
    async fn watched(
        mut self,
        progress: &mut Progress,
        canceled: &mut watch::Receiver<bool>,
    ) -> Result<Option<Value>, Refusal> {
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
            let Next::Event(event) = next else {
                self.events.reach_again().await?;
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
            self.take(*event, progress);
        }
    }

    /// Updates the state with an event.
    fn take(&mut self, event: RuntimeEventEnvelope, progress: &mut Progress) {
        match event.payload {
            EventPayload::ItemStarted(started) => {
                if let Some(tool) = started.tool.map(ToolCall::from) {
                    progress.tell(&format!("calls {}", named(&tool)));
                    self.calls.insert(started.item.id, tool);
                }
            }
            EventPayload::ApprovalRequired(approval) => {
                let known = self.calls.get(&approval.item_id);
                let call = asked(&approval.tool_name, &approval.description, known);
                let is_allowed = self.tools.is_all_allowed;
                let decided = if is_allowed {
                    ApprovalDecision::Allow
                } else {
                    ApprovalDecision::Deny
                };
                self.open.push(Question {
                    id: approval.id,
                    answer: QuestionAnswer::Approval(decision(decided)),
                    refuses: (!is_allowed).then(|| named(&call)),
                });
            }
            EventPayload::UserInputRequired(input) => self.open.push(Question {
                answer: QuestionAnswer::Input(unanswered(&input.request)),
                id: input.id,
                refuses: None,
            }),
            EventPayload::ItemCompleted(ended)
            | EventPayload::ItemFailed(ended)
            | EventPayload::ItemInterrupted(ended) => self.take_item(ended.item, progress),
            _ => {}
        }
    }

    fn take_item(&mut self, item: Item, progress: &mut Progress) {
        let text = item.detail.unwrap_or_default();
        match item.kind {
            ItemKind::AgentMessage if !text.trim().is_empty() => {
                progress.tell(&format!("says {text}"));
                self.answer = text;
            }
            ItemKind::AgentMessage | ItemKind::UserMessage => {}
            ItemKind::AgentReasoning => progress.tell("thought"),
            _ => {
                let how = match item.status {
                    Status::Completed => "done",
                    Status::Interrupted | Status::Canceled => "stopped",
                    _ => "failed",
                };
                let tool = self.calls.get(&item.id);
                let what = tool.map_or(item.summary, named);
                progress.tell(&format!("{how}: {what}"));
            }
        }
    }

    /// Answers open approvals and questions: there is no user to answer them.
    async fn settle(&mut self) -> Result<(), Refusal> {
        while let Some(question) = self.open.pop() {
            let api = self.tools.link.api();
            let answered = match &question.answer {
                QuestionAnswer::Approval(request) => {
                    decide_approval(&*api, &question.id, request.clone()).await
                }
                QuestionAnswer::Input(answers) => {
                    answer_input(&*api, &self.thread.id, &question.id, answers.clone()).await
                }
            };
            match answered {
                Ok(()) => self.refused.extend(question.refuses),
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
        let api = self.tools.link.api();
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
                Some(Refusal::new("interrupted", "somebody stopped the turn"))
            }
            _ => {
                let code = turn.error_code.as_deref().unwrap_or("internal");
                let cause = turn.error.as_deref().unwrap_or("the turn failed");
                Some(Refusal::new(code, cause))
            }
        };
        let mut result = match refusal {
            Some(refusal) => refusal.result_with(data),
            None => {
                let mut about = format!("thread_id: {}", self.thread.id);
                if let Some(usage) = &turn.usage {
                    let (read, written) = (usage.input_tokens, usage.output_tokens);
                    about.push_str(&format!("\ntokens: {read} read, {written} written"));
                }
                for call in data["refused"].as_array().into_iter().flatten() {
                    let call = call.as_str().unwrap_or_default();
                    about.push_str(&format!("\nrefused: {call} ({NOBODY})"));
                }
                let left = self.refused.len().saturating_sub(MAX_REFUSED);
                if left > 0 {
                    about.push_str(&format!("\nrefused: {left} calls more"));
                }
                let said = if answer.is_empty() {
                    "[the agent said nothing]"
                } else {
                    &answer
                };
                let mut result = texts(&[said, &about]);
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
fn named(tool: &ToolCall) -> String {
    cut(format!("{} {}", tool.name, about(&tool.input)).trim_end())
}

#[cfg(test)]
mod tests {
    use windlass_protocol::CallError;
    use windlass_protocol::ErrorCode;

    use super::*;

    #[test]
    fn only_a_question_that_is_answered_is_let_go() {
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
