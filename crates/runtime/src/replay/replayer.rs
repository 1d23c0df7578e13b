//! Repeats the machine's decisions one by one.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::budget::{Budgets, Limit};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData, ToolCompletedData, TurnFailedData};
use windlass_core::mcp::DiscoveredTools;
use windlass_core::message::Controls;
use windlass_core::remembered_calls::call_digest;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_store::StreamKey;
use windlass_turn::{Decision, DecisionContext, Input, Rejected, Thread, TurnPlan};

use super::compare::difference;
use super::inputs::{EventCause, cause_of};
use super::{Divergence, ReplayReport};
use crate::errors::from_journal;
use crate::inner::Inner;
use crate::runtime::{ForkAt, fork_point};
use crate::steps::prompt_view;
use crate::thread::{PROCESS_STOPPED, StepScope};
use crate::turn_context::{ContextRequest, Discovery, TurnContext, assemble};

/// Number of events read at a time.
const PAGE: usize = 1024;
/// Seconds of a budget that no turn uses up: about 100 years.
const FAR_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;

/// A running replay. The state advances by the record, so that IDs stay the same.
pub(super) struct Replayer {
    inner: Arc<Inner>,
    events: Vec<Arc<Event>>,
    /// Number of events to replay. The later ones only help to interpret these.
    end: usize,
    at: usize,
    thread: Thread,
    context: Option<Arc<TurnContext>>,
    idle_plan: TurnPlan,
    report: ReplayReport,
}

impl Replayer {
    pub(super) async fn load(
        inner: &Arc<Inner>,
        session_id: SessionId,
        until: Option<TurnId>,
    ) -> Result<Self> {
        inner.slot(session_id).await?;
        let events = read(inner, session_id).await?;
        let end = match until {
            None => events.len(),
            Some(turn_id) => {
                let last = fork_point(inner, session_id, ForkAt::Turn(turn_id)).await?;
                events
                    .iter()
                    .take_while(|event| event.seq() <= last)
                    .count()
            }
        };
        Ok(Self {
            inner: Arc::clone(inner),
            events,
            end,
            at: 0,
            thread: Thread::new(session_id),
            context: None,
            idle_plan: TurnPlan {
                limits: inner.settings.limits,
                ..TurnPlan::default()
            },
            report: ReplayReport {
                events: 0,
                turns: 0,
                reconfigured: Vec::new(),
                divergence: None,
            },
        })
    }

    pub(super) async fn play(mut self) -> Result<ReplayReport> {
        while self.at < self.end && self.report.divergence.is_none() {
            let decided = match cause_of(&self.thread, &self.events[self.at..]) {
                EventCause::Outside => {
                    self.advance();
                    continue;
                }
                EventCause::Unknown => {
                    self.diverge(None, "it has no known cause".to_owned());
                    continue;
                }
                EventCause::Text(exec_id, tail) => {
                    let ctx = DecisionContext {
                        tail: Some(&tail),
                        ..self.ctx()
                    };
                    self.thread.chunk(exec_id, &ctx)
                }
                EventCause::Input(input) => {
                    let input = self.with_context(*input).await?;
                    self.thread.decide(input, &self.ctx())
                }
            };
            self.check(decided);
        }
        Ok(self.report)
    }

    /// The time is the recorded one. IDs of the decision are not compared, so any value will do.
    fn ctx(&self) -> DecisionContext<'_> {
        let context = self.context.as_deref();
        DecisionContext {
            now: self.events[self.at].ts,
            uuid: self.events[self.at].id.uuid(),
            plan: context.map_or(&self.idle_plan, |context| &context.plan),
            tail: None,
            mask: None,
        }
    }

    /// Adds the parts of an input that come from the configuration and not from the record.
    async fn with_context(&mut self, mut input: Input) -> Result<Input> {
        match &mut input {
            Input::Submit { message, .. } if self.starts_turn() => {
                self.context = Some(self.assemble(message.controls.clone()).await?);
            }
            Input::Begin { failure, .. } => {
                let next = self.thread.queue().front();
                let controls = next.and_then(|next| next.message.controls.clone());
                self.context = match failure {
                    None => Some(self.assemble(controls).await?),
                    // The recorded failure to configure or start the turn is used.
                    Some(_) if self.has_config() => self.assemble(controls).await.ok(),
                    Some(_) => None,
                };
            }
            Input::Interrupt {
                reason: Some(reason),
                ..
            } if reason == PROCESS_STOPPED => self.context = None,
            Input::ModelFinished { answer, .. } if answer.prompt.is_none() => {
                if let (Some(context), Some(turn)) = (&self.context, self.thread.turn()) {
                    let scope = StepScope {
                        inner: &self.inner,
                        context,
                        thread: &self.thread,
                    };
                    (_, answer.prompt) = prompt_view::build(&scope, turn.iterations);
                }
            }
            _ => {}
        }
        Ok(input)
    }

    fn starts_turn(&self) -> bool {
        self.thread.turn().is_none() && self.thread.queue().is_empty()
    }

    fn has_config(&self) -> bool {
        let mut rest = self.events[self.at..].iter();
        let config = rest.find_map(|event| match &event.data {
            EventData::TurnStarted(data) => Some(data.config.clone()),
            _ => None,
        });
        config.flatten().is_some_and(|config| !config.is_empty())
    }

    /// Returns the recorded tools of MCP servers for the turn that begins next.
    fn discovered(&self) -> Arc<DiscoveredTools> {
        let is_idle = |event: &&Arc<Event>| !event.data.ends_turn();
        let rest = || self.events[self.at..].iter().take_while(is_idle);
        let has_tools = rest().find_map(|event| match &event.data {
            EventData::TurnStarted(data) => Some(data.discovered.is_some()),
            _ => None,
        });
        let recorded = rest().find_map(|event| match &event.data {
            EventData::ToolsDiscovered(data) => Some(Arc::new(DiscoveredTools::clone(data))),
            _ => None,
        });
        match (recorded, has_tools) {
            (Some(recorded), _) => recorded,
            (None, Some(true)) => Arc::clone(self.thread.discovered()),
            (None, _) => Arc::default(),
        }
    }

    async fn assemble(&self, controls: Option<Controls>) -> Result<Arc<TurnContext>> {
        let request = ContextRequest {
            controls,
            discovery: Discovery::Recorded(self.discovered()),
            ..ContextRequest::default()
        };
        let assembled = assemble(&self.inner, self.thread.session_id(), request);
        let assembled = Box::pin(assembled).await?;
        let mut context = assembled.context;
        // If the recorded turn was not compacted, a context window that was unknown or different then must not compact it now.
        if !self.compacts() {
            context.plan.compaction = None;
        }
        context.plan.budgets = self.budgets(&context.plan.budgets);
        context.plan.remembered = self.remembered();
        Ok(Arc::new(context))
    }

    /// Returns the events of the turn that begins here.
    fn turn_events(&self) -> impl Iterator<Item = &EventData> {
        let rest = &self.events[self.at..];
        let begins = |event: &Arc<Event>| matches!(event.data, EventData::TurnStarted(_));
        let begin = rest.iter().position(begins).unwrap_or(rest.len());
        let turn_id = rest.get(begin).and_then(|event| event.context.turn_id);
        let mut is_over = false;
        rest[begin..]
            .iter()
            .filter(move |event| event.context.turn_id == turn_id)
            .map(|event| &event.data)
            .take_while(move |data| !std::mem::replace(&mut is_over, data.ends_turn()))
    }

    /// Returns whether the turn that begins here compacted its history automatically, or would have had to.
    fn compacts(&self) -> bool {
        self.turn_events().any(|data| match data {
            EventData::ContextCompacting(data) => data.auto == Some(true),
            EventData::TurnFailed(data) => data.error_code.as_deref() == Some("context_full"),
            _ => false,
        })
    }

    /// Returns the approvals that were remembered when the turn began: the calls that ran in it without approval, whatever is remembered today.
    fn remembered(&self) -> Arc<[String]> {
        if self.inner.remembered.is_none() {
            return Arc::new([]);
        }
        let (mut approved, mut started) = (HashSet::new(), BTreeSet::new());
        for data in self.turn_events() {
            match data {
                EventData::ApprovalRequired(data) => {
                    approved.insert(call_digest(&data.tool_call).to_string());
                }
                EventData::ToolStarted(data) => {
                    started.insert(call_digest(&data.tool_call).to_string());
                }
                _ => {}
            }
        }
        started.retain(|call| !approved.contains(call));
        started.into_iter().collect()
    }

    /// Returns the budgets that apply to the turn that begins here: only those that refused something in it. A budget of today must not refuse work
    /// that ran then.
    fn budgets(&self, today: &Budgets) -> Budgets {
        let mut budgets = Budgets::default();
        for data in self.turn_events() {
            match data {
                // Only the presence of a deadline matters.
                EventData::TurnStarted(data) if data.deadline.is_some() => {
                    budgets.turn.seconds = Some(FAR_SECONDS);
                }
                EventData::ToolCompleted(data) if is_refused_by_budget(data) => {
                    budgets.turn.tool_calls = today.turn.tool_calls;
                    budgets.thread.tool_calls = today.thread.tool_calls;
                }
                EventData::TurnFailed(data) => restore_exceeded_limit(data, &mut budgets),
                _ => {}
            }
        }
        budgets
    }

    /// Compares the machine's decision with the record, and advances by the record.
    fn check(&mut self, decided: std::result::Result<Decision, Rejected>) {
        let events = match decided {
            Err(rejected) => return self.diverge(None, rejected.to_string()),
            Ok(decision) if decision.events.is_empty() => {
                return self.diverge(None, "the decision has no events".to_owned());
            }
            Ok(decision) => decision.events,
        };
        for got in events {
            let Some(expected) = self.events.get(self.at) else {
                return self.diverge(Some(got), "the record ends before".to_owned());
            };
            if let Some(detail) = difference(expected, &got) {
                return self.diverge(Some(got), detail);
            }
            self.note_config(&got);
            self.advance();
            if self.report.divergence.is_some() {
                return;
            }
        }
        if self.thread.turn().is_none() {
            self.context = None;
        }
    }

    fn note_config(&mut self, got: &Event) {
        if let (EventData::TurnStarted(expected), EventData::TurnStarted(got)) =
            (&self.events[self.at].data, &got.data)
        {
            self.report.turns += 1;
            if expected.config != got.config {
                self.report.reconfigured.push(expected.turn_id);
            }
        }
    }

    fn advance(&mut self) {
        if let Err(invalid) = self.thread.evolve(&self.events[self.at]) {
            return self.diverge(None, invalid.to_string());
        }
        self.at += 1;
        self.report.events += 1;
    }

    fn diverge(&mut self, got: Option<Arc<Event>>, detail: String) {
        self.report.divergence = Some(Divergence {
            index: self.at,
            expected: self.events.get(self.at).cloned(),
            got,
            detail,
        });
    }
}

fn is_refused_by_budget(data: &ToolCompletedData) -> bool {
    let error = data.error.as_deref().unwrap_or_default();
    error.starts_with("not run: the ") && error.contains("'s budget of ")
}

/// Sets the limit that ended a turn, from its recorded end.
fn restore_exceeded_limit(end: &TurnFailedData, budgets: &mut Budgets) {
    let Some(fields) = &end.error_fields else {
        return;
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let allowed = fields.get("allowed").and_then(Value::as_u64);
    let limit = text("limit").and_then(|limit| limit.split_once('_'));
    let (Some(allowed), Some((scope, limit))) = (allowed, limit) else {
        return;
    };
    let budget = match scope {
        "turn" => &mut budgets.turn,
        "thread" => &mut budgets.thread,
        _ => return,
    };
    let limits = [
        (Limit::Usd, &mut budget.micro_usd),
        (Limit::Tokens, &mut budget.tokens),
        (Limit::ModelCalls, &mut budget.model_calls),
        (Limit::Seconds, &mut budget.seconds),
    ];
    for (known, slot) in limits {
        if known.as_str() == limit {
            *slot = Some(allowed);
        }
    }
}

/// Reads all events of a session. If any is missing, the later decisions cannot be repeated.
async fn read(inner: &Inner, session_id: SessionId) -> Result<Vec<Arc<Event>>> {
    let key = StreamKey::from(session_id);
    let mut events: Vec<Arc<Event>> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq());
        let page = inner.backends.journal.read(&key, after, PAGE);
        let page = page.await.map_err(from_journal)?;
        let is_note = |event: &Arc<Event>| matches!(event.data, EventData::JournalPruned(_));
        if !page.pruned.is_empty() || page.events.iter().any(is_note) {
            return Err(AgentLoopError::NotReplayable {
                session_id,
                reason: "some of its records were pruned".to_owned(),
            });
        }
        let head = page.head;
        let is_last = page.events.is_empty();
        events.extend(page.events);
        if is_last || events.last().is_some_and(|event| event.seq() >= head) {
            return Ok(events);
        }
    }
}
