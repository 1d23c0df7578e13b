//! Frames on a socket: the parser and the dispatcher of JSON-RPC, with the rules of runs behind them.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_runs::rpc::{
    Connection, FrameAction, Gate, Hub, NoMethods, Outbox, Outgoing, RpcLimits, ValidToken,
};
use windlass_runs::{Reads, RunSettings, Runs};
use windlass_store::{MemoryRunLog, RunFilter, RunLog};

/// Requires no token.
struct OpenGate;

impl Gate for OpenGate {
    fn requires_token(&self) -> bool {
        false
    }

    fn validate(&self, _: &str) -> Option<ValidToken> {
        None
    }

    fn is_still_valid(&self, _: &str) -> bool {
        true
    }
}

/// How many frames one input makes at most, so that every answer has room in the queue.
const MAX_FRAMES: usize = 64;

const METHODS: [&str; 16] = [
    "runs.start",
    "runs.complete",
    "runs.record_turns",
    "runs.record_model_turn",
    "runs.cancel",
    "runs.resume",
    "runs.list",
    "runs.get_trace",
    "runs.subscribe",
    "runs.unsubscribe",
    "server.handshake",
    "session.init",
    "session.auth",
    "runs.bogus",
    "",
    "runs.",
];

/// Reads the input byte by byte; what is missing is 0.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn text(&mut self) -> String {
        let length = usize::from(self.next() % 12);
        let bytes: Vec<u8> = (0..length).map(|_| self.next()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn value(&mut self, depth: u8) -> Value {
        match self.next() % 9 {
            0 => Value::Null,
            1 => json!(self.next().is_multiple_of(2)),
            2 => json!(self.next()),
            3 => json!(-i64::from(self.next()) * 1_000_003),
            4 => json!(f64::from(self.next()) / 3.0),
            5 => json!(self.text()),
            6 if depth > 0 => (0..self.next() % 4)
                .map(|_| self.value(depth - 1))
                .collect(),
            7 if depth > 0 => {
                let fields = (0..self.next() % 4).map(|_| (self.text(), self.value(depth - 1)));
                Value::Object(fields.collect())
            }
            _ => json!(self.key()),
        }
    }

    /// One of few ids, so that calls meet the same runs.
    fn key(&mut self) -> String {
        format!("k{}", self.next() % 4)
    }

    fn params(&mut self) -> Value {
        let agent_id = ["a", "b", "", " "][usize::from(self.next() % 4)];
        let intent = ["i", "j", " "][usize::from(self.next() % 3)];
        let status = ["success", "done", "great"][usize::from(self.next() % 3)];
        let mut params = json!({
            "run_id": self.key(),
            "agent_id": agent_id,
            "intent": intent,
            "idempotency_key": self.key(),
            "outcome": {"status": status},
            "turns": [{"tool": self.text(), "output": self.value(2)}],
            "turn_index": self.next() % 3,
            "reason": self.text(),
            "protocol_version": self.next() % 5,
        });
        // Strict methods want nothing else; and now and then a field is missing, or is something else.
        for _ in 0..self.next() % 4 {
            let names = [
                "run_id", "agent_id", "intent", "outcome", "turns", "cursor", "limit", "token",
            ];
            let name = names[usize::from(self.next() % 8)];
            params[name] = self.value(2);
        }
        if self.next().is_multiple_of(3) {
            let run_id = params["run_id"].take();
            let key = params["idempotency_key"].take();
            params = json!({"run_id": run_id, "idempotency_key": key, "reason": "r"});
        }
        params
    }

    fn frame(&mut self) -> String {
        match self.next() % 8 {
            0 => self.text(),
            1 => self.value(3).to_string(),
            2 => {
                json!({"jsonrpc": "2.0", "id": self.value(0), "result": self.value(1)}).to_string()
            }
            kind => {
                let method = METHODS[usize::from(self.next() % 16)];
                let params = match kind {
                    3 => self.value(2),
                    _ => self.params(),
                };
                let mut frame = json!({"jsonrpc": "2.0", "method": method, "params": params});
                if kind != 4 {
                    frame["id"] = match self.next() % 4 {
                        0 => self.value(1),
                        _ => json!(self.next()),
                    };
                }
                frame.to_string()
            }
        }
    }
}

/// Sends any frames and checks every answer, and what the log holds in the end.
pub fn rpc_frames(data: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    else {
        return;
    };
    runtime.block_on(async {
        let log = Arc::new(MemoryRunLog::default());
        let settings = RunSettings {
            reads: Reads::Open,
            ..RunSettings::default()
        };
        let clock = Arc::new(windlass_core::SystemClock);
        let Ok(runs) = Runs::open_log(log.clone(), clock, settings).await else {
            panic!("an empty log cannot be opened");
        };
        let hub = Arc::new(Hub {
            runs: runs.clone(),
            gate: Box::new(OpenGate),
            limits: RpcLimits {
                queue: 4096,
                ..RpcLimits::default()
            },
            server_version: String::new(),
            methods: Box::new(NoMethods),
        });
        let (outbox, mut outgoing) = Outbox::new(4096, usize::MAX);
        let mut connection = Connection::new(hub, outbox);
        let mut bytes = Bytes(data.iter());
        let mut expected = Vec::new();
        for _ in 0..MAX_FRAMES {
            if bytes.is_empty() {
                break;
            }
            let frame = bytes.frame();
            expected.extend(expected_id(&frame));
            assert_eq!(
                connection.handle(&frame).await,
                FrameAction::Continue,
                "{frame}"
            );
        }
        connection.disconnect().await;
        let mut answered = Vec::new();
        while let Some(out) = outgoing.recv().await {
            let Outgoing::Text(text) = &out.message else {
                panic!("closed for no reason: {out:?}");
            };
            answered.extend(id_of_answer(text));
        }
        assert_eq!(
            sorted(answered),
            sorted(expected),
            "each request has one answer"
        );
        check_log(&*log).await;
    });
}

fn sorted(ids: Vec<Value>) -> Vec<String> {
    let mut ids: Vec<String> = ids.iter().map(Value::to_string).collect();
    ids.sort_unstable();
    ids
}

/// Returns the id under which a frame must be answered; `None` when it must not be.
fn expected_id(frame: &str) -> Option<Value> {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(frame) else {
        return Some(Value::Null);
    };
    let id = map.get("id").cloned();
    if id
        .as_ref()
        .is_some_and(|id| id.is_array() || id.is_object() || id.is_boolean())
    {
        return Some(Value::Null);
    }
    let is_ours = map.get("jsonrpc") == Some(&json!("2.0"));
    match map.get("method") {
        Some(Value::String(_)) if is_ours => id,
        None if is_ours && (map.contains_key("result") || map.contains_key("error")) => None,
        _ => Some(id.unwrap_or(Value::Null)),
    }
}

fn id_of_answer(text: &str) -> Option<Value> {
    let Ok(frame) = serde_json::from_str::<Value>(text) else {
        panic!("an answer is no JSON: {text}");
    };
    assert_eq!(frame["jsonrpc"], "2.0", "{text}");
    if frame.get("method").is_some() {
        return None;
    }
    let (result, error) = (frame.get("result"), frame.get("error"));
    assert!(result.is_some() != error.is_some(), "{text}");
    if let Some(error) = error {
        assert!(
            error["code"].as_i64().is_some_and(|code| code < 0),
            "{text}"
        );
        assert!(error["data"]["reason"].is_string(), "{text}");
        assert_ne!(
            error["code"], -32603,
            "nothing here is the server's fault: {text}"
        );
    }
    Some(frame["id"].clone())
}

/// Every run has one start, turns numbered without a gap, and at most one end.
async fn check_log(log: &dyn RunLog) {
    let Ok(runs) = log.list(RunFilter::default(), 1000).await else {
        panic!("the log cannot be listed");
    };
    for run in runs {
        let Ok(page) = log.read(&run.summary.run_id, 0, 10_000, usize::MAX).await else {
            panic!("a run cannot be read");
        };
        let records: Vec<Value> = page.records.iter().map(|record| json!(record)).collect();
        assert_eq!(records[0]["record"], "started");
        let ends = records
            .iter()
            .filter(|record| record["record"] == "ended")
            .count();
        assert!(ends <= 1, "{records:?}");
        let turns = &records[1..records.len() - ends];
        for (index, turn) in turns.iter().enumerate() {
            assert_eq!(turn["index"], index, "{records:?}");
        }
        assert_eq!(run.summary.turn_count, turns.len() as u64);
    }
}
