//! Pseudo-random events of a thread: mostly as the turn machine generates them, sometimes invalid ones.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass_core::derived_id::derive;
use windlass_core::events::{Event, EventContext, EventData};
use windlass_core::typed_id::{EventId, ExecId, MessageId, SessionId, TurnId};

pub(super) struct Play {
    pub(super) events: Vec<Arc<Event>>,
    seed: u64,
    chosen: u64,
    turn: Option<PlayedTurn>,
}

struct PlayedTurn {
    id: TurnId,
    input: MessageId,
    step: ExecId,
    iteration: u64,
    calls: Vec<(ExecId, String)>,
}

/// Generates events from a number of choices.
pub(super) fn play(seed: u64, choices: usize) -> Vec<Arc<Event>> {
    let mut play = Play::new(seed);
    (0..choices).for_each(|_| play.choose());
    play.events
}

/// Generates a number of turns, each with an input, an answer and an end.
pub(super) fn plain_turns(seed: u64, turns: usize) -> Vec<Arc<Event>> {
    let mut play = Play::new(seed);
    for _ in 0..turns {
        play.start();
        play.answer(0);
        play.end(0);
    }
    play.events
}

impl Play {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            events: Vec::new(),
            seed,
            chosen: 0,
            turn: None,
        }
    }

    fn uuid(&mut self) -> Uuid {
        self.chosen += 1;
        derive(derive(Uuid::nil(), self.seed), self.chosen)
    }

    fn below(&mut self, n: u64) -> u64 {
        u64::from(self.uuid().as_bytes()[15]) % n
    }

    fn add(&mut self, exec_id: Option<ExecId>, event_type: &str, payload: Value) {
        let seq = self.events.len() as u64 + 1;
        let context = EventContext {
            turn_id: self.turn.as_ref().map(|turn| turn.id),
            input_message_id: self.turn.as_ref().map(|turn| turn.input),
            exec_id,
            ..EventContext::default()
        };
        let id = EventId::from_uuid(self.uuid());
        self.events.push(Arc::new(Event {
            id,
            event_type: event_type.to_owned(),
            ts: at(seq),
            session_id: SessionId::from_seed(1),
            context,
            data: EventData::from_type(event_type, payload).unwrap(),
            metadata: None,
            tags: None,
            sequence: Some(seq),
        }));
    }

    fn choose(&mut self) {
        let Some(turn) = &self.turn else {
            return match self.below(8) {
                0 => self.add(None, "custom", json!({"name": "a", "payload": 1})),
                1 => self.say("imported"),
                2 => self.repair(),
                3 => self.misfit(),
                _ => self.start(),
            };
        };
        let calls = turn.calls.len() as u64;
        match self.below(12) {
            0 => self.delta(),
            1 => self.steer(),
            2 => self.ask(),
            3 => self.misfit(),
            4 if calls == 0 => {
                let choice = self.below(3);
                self.end(choice);
            }
            5 if calls > 0 => self.end(2),
            _ if calls > 0 => self.complete(),
            6..=8 => self.reason(),
            _ => {
                let calls = self.below(4);
                self.answer(calls);
            }
        }
    }

    pub(super) fn start(&mut self) {
        let turn = PlayedTurn {
            id: TurnId::from_uuid(self.uuid()),
            input: MessageId::from_uuid(self.uuid()),
            step: ExecId::from_uuid(self.uuid()),
            iteration: 0,
            calls: Vec::new(),
        };
        let (id, input) = (turn.id, turn.input);
        self.turn = Some(turn);
        let outline = json!({"input_summary": "what is asked", "model": "model"});
        let started = json!({"turn_id": id, "input_message_id": input, "outline": outline});
        self.add(None, "turn.started", started);
        self.message(
            input,
            "user",
            json!([{"type": "text", "text": "what is asked"}]),
        );
        let activated = json!({"input_message_id": input, "input_text": "what is asked"});
        self.add(None, "session.activated", activated);
        self.reason();
    }

    fn message(&mut self, id: MessageId, role: &str, content: Value) {
        let message = json!({"id": id, "role": role, "content": content, "created_at": at(0)});
        self.add(None, "input.message", json!({"message": message}));
    }

    fn say(&mut self, text: &str) {
        let id = MessageId::from_uuid(self.uuid());
        self.message(id, "user", json!([{"type": "text", "text": text}]));
    }

    fn steer(&mut self) {
        let (id, message_id) = (self.turn_id(), MessageId::from_uuid(self.uuid()));
        let steered = json!({"turn_id": id, "message_id": message_id, "input_text": "more"});
        self.add(None, "turn.steered", steered);
        self.message(
            message_id,
            "user",
            json!([{"type": "text", "text": "more"}]),
        );
    }

    fn turn_id(&self) -> Option<TurnId> {
        self.turn.as_ref().map(|turn| turn.id)
    }

    fn reason(&mut self) {
        let step = ExecId::from_uuid(self.uuid());
        if let Some(turn) = &mut self.turn {
            (turn.step, turn.iteration) = (step, turn.iteration + 1);
            let iteration = turn.iteration;
            self.add(
                Some(step),
                "reason.started",
                json!({"iteration": iteration}),
            );
        }
    }

    pub(super) fn delta(&mut self) {
        let step = self.turn.as_ref().map(|turn| turn.step);
        let payload = json!({"turn_id": self.turn_id(), "delta": "a piece"});
        self.add(step, "output.message.delta", payload);
    }

    pub(super) fn answer(&mut self, calls: u64) {
        let Some(step) = self.turn.as_ref().map(|turn| turn.step) else {
            return;
        };
        let id = MessageId::from_uuid(self.uuid());
        let mut content = vec![json!({"type": "text", "text": "what is answered"})];
        let called = (0..calls).map(|n| (ExecId::from_uuid(derive(id.uuid(), n)), format!("c{n}")));
        let called: Vec<_> = called.collect();
        content.extend(called.iter().map(|(_, call)| {
            json!({"type": "tool_call", "id": call, "name": "tool", "arguments": {"x": 1}})
        }));
        self.add(
            Some(step),
            "output.message.started",
            json!({"message_id": id}),
        );
        let message = json!({"id": id, "role": "agent", "content": content, "created_at": at(0)});
        self.add(
            Some(step),
            "output.message.completed",
            json!({"message": message}),
        );
        let usage = json!({"input_tokens": 10, "output_tokens": 3, "estimated_cost_usd": 0.1});
        let completed = json!({"success": true, "has_tool_calls": calls > 0, "tool_call_count": calls, "usage": usage});
        self.add(Some(step), "reason.completed", completed);
        for (exec_id, call) in &called {
            let call = json!({"id": call, "name": "tool", "arguments": {"x": 1}});
            let started = json!({"tool_call": call, "side_effects": "pure"});
            self.add(Some(*exec_id), "tool.started", started);
        }
        if let Some(turn) = &mut self.turn {
            turn.calls = called;
        }
    }

    /// A call begins to wait, or no longer does.
    fn ask(&mut self) {
        let calls = self.turn.as_ref().map_or(0, |turn| turn.calls.len() as u64);
        if calls == 0 {
            return;
        }
        let at = self.below(calls) as usize;
        let is_over = self.below(2) == 0;
        let Some((exec_id, call)) = self.turn.as_ref().map(|turn| turn.calls[at].clone()) else {
            return;
        };
        if is_over {
            let decided = json!({"tool_call_id": call, "decision": "allow"});
            self.add(Some(exec_id), "approval.decided", decided);
        } else {
            let call = json!({"id": call, "name": "tool", "arguments": {}});
            let required = json!({"tool_call": call, "digest": ""});
            self.add(Some(exec_id), "approval.required", required);
        }
    }

    /// A result comes, not always in the order of the calls.
    fn complete(&mut self) {
        let calls = self.turn.as_ref().map_or(0, |turn| turn.calls.len() as u64);
        let at = self.below(calls.max(1)) as usize;
        let Some(turn) = &mut self.turn else { return };
        let (exec_id, call) = turn.calls.remove(at);
        let result = json!([{"type": "tool_result", "tool_call_id": call, "result": 5}]);
        let completed = json!({
            "tool_call_id": call, "tool_name": "tool", "success": true, "status": "success", "result": result,
        });
        self.add(Some(exec_id), "tool.completed", completed);
    }

    fn repair(&mut self) {
        let id = MessageId::from_uuid(self.uuid());
        let repaired = json!({"tool_call_id": "c", "tool_name": "tool", "message_id": id});
        self.add(None, "transcript.repaired", repaired);
    }

    pub(super) fn end(&mut self, how: u64) {
        let turn_id = self.turn_id();
        match how {
            0 => {
                let usage =
                    json!({"input_tokens": 10, "output_tokens": 3, "estimated_cost_usd": 0.1});
                let payload =
                    json!({"turn_id": turn_id, "iterations": 2, "duration_ms": 7, "usage": usage});
                self.add(None, "turn.completed", payload);
            }
            1 => {
                let payload =
                    json!({"turn_id": turn_id, "error": "it broke", "error_code": "broken"});
                self.add(None, "turn.failed", payload);
            }
            _ => {
                let payload = json!({"turn_id": turn_id, "reason": "stop", "iterations": 1});
                self.add(None, "turn.cancelled", payload);
            }
        }
        self.turn = None;
        self.add(None, "session.idled", json!({}));
    }

    fn misfit(&mut self) {
        let (turn_id, exec_id) = (
            TurnId::from_uuid(self.uuid()),
            ExecId::from_uuid(self.uuid()),
        );
        match self.below(4) {
            0 => self.add(
                None,
                "turn.completed",
                json!({"turn_id": turn_id, "iterations": 1}),
            ),
            1 => {
                let completed = json!({"tool_call_id": "?", "tool_name": "tool", "success": true, "status": "success"});
                self.add(Some(exec_id), "tool.completed", completed);
            }
            2 => {
                let message = json!({"id": MessageId::from_uuid(self.uuid()), "role": "user", "content": [], "created_at": at(0)});
                let queued = json!({"turn_id": turn_id, "message": message});
                self.add(None, "input.queued", queued);
                // It is given up before its turn comes.
                self.add(None, "turn.cancelled", json!({"turn_id": turn_id}));
            }
            _ => self.delta_of_nothing(turn_id),
        }
    }

    fn delta_of_nothing(&mut self, turn_id: TurnId) {
        self.add(
            None,
            "output.message.delta",
            json!({"turn_id": turn_id, "delta": "x"}),
        );
    }
}

fn at(seq: u64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + seq)
}
