//! The turn machine under any order of inputs, those that fit and those that do not.
//!
//! The driver plays the part of the thread's driver: it keeps the steps that were started, answers them, crashes,
//! moves the clock. The [`InvariantChecker`] looks at every commit and knows what must always hold.

mod backend;
mod checker;
mod inputs;
mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_turn::{
    Command, Decision, DecisionContext, Input, Phase, Rejected, Thread, TurnPlan, UnflushedText,
    derive,
};

use super::bytes::Bytes;
use checker::InvariantChecker;

/// Plays the inputs that the bytes stand for, and panics as soon as something does not hold.
pub fn turn_machine(data: &[u8]) {
    play(data);
}

fn play(data: &[u8]) -> MachineDriver {
    let mut bytes = Bytes::new(data);
    let mut driver = MachineDriver::new(plan::plan(&mut bytes));
    while !bytes.is_empty() {
        driver.step(&mut bytes);
    }
    driver.settle();
    driver
}

/// Drives one thread like its actor.
struct MachineDriver {
    plan: TurnPlan,
    thread: Thread,
    /// The fold of the recorded events.
    folded: Thread,
    events: Vec<Arc<Event>>,
    running: BTreeSet<ExecId>,
    checker: InvariantChecker,
    now: DateTime<Utc>,
    moments: u64,
}

const BASE: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);

impl MachineDriver {
    fn new(plan: TurnPlan) -> Self {
        let session_id = SessionId::from_seed(1);
        Self {
            plan,
            thread: Thread::new(session_id),
            folded: Thread::new(session_id),
            events: Vec::new(),
            running: BTreeSet::new(),
            checker: InvariantChecker::default(),
            now: DateTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            moments: 0,
        }
    }

    fn fresh(&mut self) -> Uuid {
        self.moments += 1;
        derive(BASE, self.moments)
    }

    fn with_context<T>(
        &mut self,
        tail: Option<&UnflushedText>,
        f: impl FnOnce(&Thread, &DecisionContext<'_>) -> T,
    ) -> T {
        let uuid = self.fresh();
        let ctx = DecisionContext {
            now: self.now,
            uuid,
            plan: &self.plan,
            tail,
            mask: None,
        };
        f(&self.thread, &ctx)
    }

    /// Decides, records and acts.
    fn submit(&mut self, input: Input, tail: Option<&UnflushedText>) -> Result<usize, Rejected> {
        let decision = self.with_context(tail, |thread, ctx| thread.decide(input, ctx))?;
        Ok(self.record(decision))
    }

    fn record(&mut self, decision: Decision) -> usize {
        let commands = decision.commands.clone();
        let events = self.append(decision);
        for command in commands {
            match command {
                Command::Stop { exec_id } => assert!(
                    self.running.remove(&exec_id),
                    "{exec_id} is stopped but does not run"
                ),
                Command::CallModel { exec_id, .. }
                | Command::Summarise { exec_id }
                | Command::RunTool { exec_id, .. }
                | Command::RunBackend { exec_id, .. } => {
                    self.checker.start(exec_id);
                    self.running.insert(exec_id);
                }
                Command::AnswerBackend { exec_id, .. } | Command::SteerBackend { exec_id, .. } => {
                    assert!(
                        self.running.contains(&exec_id),
                        "{exec_id} gets a command but does not run"
                    );
                }
                Command::Prepare { .. } => {}
            }
        }
        self.compare();
        events
    }

    /// Makes the events durable and moves on; the fold of what was stored must come to the same.
    fn append(&mut self, decision: Decision) -> usize {
        let events = decision.events.clone();
        self.checker.look(&events, &decision.commands);
        for event in &events {
            let json = serde_json::to_string(event.as_ref());
            let stored = json.as_deref().map(serde_json::from_str::<Event>);
            let Ok(Ok(stored)) = stored else {
                panic!("the event cannot be stored: {event:?}")
            };
            assert_eq!(stored, **event, "the event is read as another");
            self.checker.bound(event, json.map_or(0, |json| json.len()));
            if let Err(misfit) = self.folded.evolve(&stored) {
                panic!("{misfit}");
            }
        }
        self.thread.commit(decision);
        self.events.extend(events.iter().cloned());
        assert_eq!(self.folded, self.thread, "the fold of the journal differs");
        let idles = |event: &Arc<Event>| matches!(event.data, EventData::SessionIdled(_));
        if events.iter().any(idles) {
            self.checker.check_transcript(self.thread.history());
            self.checker.check_transcript(self.thread.context());
        }
        self.check_sent();
        self.check_concurrency();
        events.len()
    }

    /// What a model is sent has every call with its result, whole or as far as it is summarised.
    fn check_sent(&self) {
        let plan = self.plan.compaction.as_ref();
        match self.thread.turn().map(|turn| &turn.phase) {
            Some(Phase::Reasoning(reason)) if reason.text_started.is_none() => {
                let context = self.thread.context();
                let sent = plan.map_or_else(|| context.clone(), |plan| plan.cut(context));
                self.checker.check_transcript(&sent);
            }
            Some(Phase::Compacting(_)) => {
                self.checker
                    .check_transcript(&self.thread.to_summarise(plan));
            }
            _ => {}
        }
    }

    /// What the driver runs is what the thread says should run.
    fn compare(&self) {
        let pending = self.thread.pending_commands();
        assert_eq!(
            pending,
            self.folded.pending_commands(),
            "the fold wants other commands"
        );
        let pending: BTreeSet<_> = pending.iter().filter_map(Command::exec_id).collect();
        assert_eq!(self.running, pending, "other steps run than should");
    }

    fn check_concurrency(&self) {
        let Some(act) = self.thread.turn().and_then(|turn| turn.act()) else {
            return;
        };
        let running = act
            .calls
            .iter()
            .filter(|call| self.thread_runs(call.exec_id));
        let mut classes = BTreeSet::new();
        let mut count = 0;
        for call in running {
            count += 1;
            let spec = self.plan.tools.get(&call.call.name);
            if let Some(class) = spec.and_then(|spec| spec.concurrency_class.as_ref()) {
                assert!(classes.insert(class), "two calls of class {class} overlap");
            }
        }
        assert!(
            count <= self.plan.max_parallel_calls.max(1),
            "{count} calls run at once"
        );
    }

    fn thread_runs(&self, exec_id: ExecId) -> bool {
        let pending = self.thread.pending_commands();
        pending
            .iter()
            .any(|command| command.exec_id() == Some(exec_id))
    }

    /// The process shuts down in order, and the next one resumes.
    fn restart(&mut self) {
        let released = self.submit(Input::Release, None);
        assert!(matches!(released, Ok(0 | 1)), "a release: {released:?}");
        self.crash();
    }

    /// The process dies: what ran is gone, the journal stays.
    fn crash(&mut self) {
        let session_id = self.thread.session_id();
        match Thread::fold(session_id, self.events.iter().map(AsRef::as_ref)) {
            Ok(thread) => self.thread = thread,
            Err(misfit) => panic!("{misfit}"),
        }
        self.running.clear();
        let turn = self.thread.turn();
        let at_work = turn.filter(|turn| !turn.is_waiting());
        self.checker.crash(at_work.map(|turn| turn.id));
        let decision = self.with_context(None, |thread, ctx| thread.decide(Input::Recover, ctx));
        let Ok(decision) = decision else {
            panic!("a thread cannot recover")
        };
        self.append(decision);
        self.checker.after_restart();
        for command in self.thread.pending_commands() {
            if let Some(exec_id) = command.exec_id() {
                self.checker.start(exec_id);
                self.running.insert(exec_id);
            }
        }
        self.compare();
    }

    /// Fires the timer: something happens exactly if a deadline has passed.
    fn timer(&mut self) {
        let is_due = self.thread.next_deadline().is_some_and(|at| at <= self.now);
        match self.submit(Input::Timer, None) {
            Ok(events) => assert_eq!(
                events > 0,
                is_due,
                "the timer does not do what the next deadline says"
            ),
            Err(rejected) => panic!("the timer is refused: {rejected}"),
        }
    }

    fn model_step(&self) -> Option<ExecId> {
        match &self.thread.turn()?.phase {
            Phase::Reasoning(reason) => Some(reason.exec_id),
            Phase::Compacting(compaction) => Some(compaction.exec_id),
            Phase::Between | Phase::Acting(_) | Phase::Backend(_) | Phase::Limited(_) => None,
        }
    }

    fn backend_step(&self) -> Option<ExecId> {
        let run = self.thread.turn()?.run()?;
        (!run.is_lost).then_some(run.exec_id)
    }

    /// Stops whatever is left: every turn must come to its one end.
    fn settle(&mut self) {
        let mut rounds = self.thread.queue().len() + 1;
        loop {
            if self.thread.turn().is_some() {
                let stop = Input::Interrupt {
                    turn_id: None,
                    reason: None,
                };
                assert!(
                    self.submit(stop, None).is_ok(),
                    "a running turn cannot be interrupted"
                );
            }
            let Some(next) = self.thread.queue().front() else {
                break;
            };
            let begin = Input::Begin {
                turn_id: next.turn_id,
                failure: None,
            };
            assert!(
                self.submit(begin, None).is_ok(),
                "a queued turn cannot begin"
            );
            rounds -= 1;
            assert!(rounds > 0, "the queue does not get shorter");
        }
        assert!(self.running.is_empty(), "steps run without a turn");
        self.checker.at_rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::SplitMix64;

    /// What the machine records; a target that never gets there proves nothing.
    const REACHED: &[&str] = &[
        "act.completed",
        "act.started",
        "approval.decided",
        "approval.required",
        "approval.timeout",
        "backend.completed",
        "backend.established",
        "backend.notice",
        "backend.session_chosen",
        "backend.started",
        "backend.steered",
        "backend.usage",
        "backend.waiting",
        "context.compacted",
        "context.compacting",
        "custom",
        "input.edited",
        "input.message",
        "input.queued",
        "llm.generation",
        "output.message.completed",
        "output.message.delta",
        "output.message.started",
        "output.rejected",
        "reason.completed",
        "reason.started",
        "reason.thinking.completed",
        "reason.thinking.delta",
        "reason.thinking.started",
        "session.activated",
        "session.idled",
        "tool.call_canceled",
        "tool.call_requested",
        "tool.call_resolved",
        "tool.call_timeout",
        "tool.completed",
        "tool.output.delta",
        "tool.progress",
        "tool.started",
        "transcript.repaired",
        "turn.cancelled",
        "turn.completed",
        "turn.failed",
        "turn.interrupt_requested",
        "turn.released",
        "turn.resumed",
        "turn.started",
        "turn.steered",
        "user_input.answered",
        "user_input.canceled",
        "user_input.required",
    ];

    #[test]
    fn driver_reaches_every_event_type_of_a_turn() {
        let mut reached = BTreeSet::new();
        let mut ends = BTreeSet::new();
        let mut verbatim = BTreeSet::new();
        for n in 0..2_000 {
            let driver = play(&SplitMix64::of_iteration(0, n).bytes(200));
            for event in &driver.events {
                reached.insert(event.event_type.clone());
                if let EventData::TurnFailed(failed) = &event.data {
                    ends.extend(failed.error_code.clone());
                }
                if let EventData::ContextCompacted(data) = &event.data {
                    verbatim.insert(data.kept_messages.filter(|_| data.summary.is_some()));
                }
            }
        }
        assert_eq!(Vec::from_iter(&reached), REACHED);
        let codes = [
            "backend_resume_refused",
            "backend_server",
            "context_full",
            "crashed",
            "empty_summary",
            "max_iterations",
            "output_schema_mismatch",
            "quota_exceeded",
            "server",
            "turn_timeout",
        ];
        assert_eq!(Vec::from_iter(&ends), codes);
        assert!(
            verbatim.contains(&Some(0)) && verbatim.contains(&Some(2)),
            "{verbatim:?}"
        );
    }
}
