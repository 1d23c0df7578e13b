//! Playing recorded conversations to the state machines.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_core::backend::{BackendEvent, BackendNotice};
use windlass_external_agents::{Protocol, SteerId, Step};

/// Returns the lines of a recording.
pub(crate) fn fixture(name: &str) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Describes a step in words, and omits data that is irrelevant for a turn.
pub(crate) fn describe(step: &Step) -> Option<String> {
    Some(match step {
        Step::Event(event) => match event {
            BackendEvent::Started { session_id, .. } => format!("started {session_id}"),
            BackendEvent::Text { text, .. } => format!("text {text}"),
            BackendEvent::Thinking { text, .. } => format!("thinks {text}"),
            BackendEvent::ToolStarted(call) => format!("calls {}", call.name),
            BackendEvent::ToolOutput { text, .. } => format!("prints {text}"),
            BackendEvent::ToolCompleted(result) if result.is_error => "call failed".to_owned(),
            BackendEvent::ToolCompleted(_) => "call done".to_owned(),
            BackendEvent::Permission(request) => format!("asks {}", request.name),
            BackendEvent::PermissionWithdrawn { .. } => "asks no more".to_owned(),
            BackendEvent::Usage(_) => return None,
            BackendEvent::Notice(BackendNotice::Retry { status, .. }) => {
                format!("retry {status:?}")
            }
            BackendEvent::Notice(BackendNotice::Limit { reset_at }) => {
                format!("limit {:?}", reset_at.map(|at| at.timestamp()))
            }
            BackendEvent::Notice(BackendNotice::Raw { kind, .. }) => format!("raw {kind:?}"),
            BackendEvent::Notice(_) => return None,
        },
        Step::Ended(Ok(end)) => format!("ended {end:?}"),
        Step::Ended(Err(error)) => format!("failed {:?}", error.kind),
        Step::Broken(error) => format!("broken {:?}", error.kind),
        Step::Steered(_, steered) => format!("steered {steered:?}"),
        Step::Send(_) | Step::Host(_) | Step::Silent(_) | Step::SilentUntil(_) => return None,
    })
}

pub(crate) fn describe_all(steps: &[Step]) -> Vec<String> {
    steps.iter().filter_map(describe).collect()
}

/// Plays lines to a state machine that has a prompt; it gets another one after each end.
pub(crate) fn play_lines(protocol: &mut dyn Protocol, lines: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    protocol.prompt("x");
    for line in lines {
        let new_steps = protocol.line(line.as_bytes());
        if new_steps.iter().any(|step| matches!(step, Step::Ended(_))) {
            protocol.prompt("x");
        }
        steps.extend(new_steps);
    }
    steps
}

/// Creates a state machine that starts or resumes a session.
type ProtocolFactory = Box<dyn Fn(Option<&str>) -> Box<dyn Protocol>>;

/// Plays a recorded JSON-RPC conversation. The state machine makes the recorded client's requests; the replies get the IDs of its own requests.
pub(crate) struct RecordingPlayer {
    make: ProtocolFactory,
    protocol: Option<Box<dyn Protocol>>,
    ids: HashMap<u64, Value>,
    hello: Value,
    pub(crate) steps: Vec<Step>,
}

impl RecordingPlayer {
    pub(crate) fn new(make: impl Fn(Option<&str>) -> Box<dyn Protocol> + 'static) -> Self {
        Self {
            make: Box::new(make),
            protocol: None,
            ids: HashMap::new(),
            hello: Value::Null,
            steps: Vec::new(),
        }
    }

    pub(crate) fn play(&mut self, lines: &[String]) {
        for line in lines {
            let entry: Value = serde_json::from_str(line).unwrap();
            let message = entry["msg"].clone();
            match entry["dir"].as_str().unwrap() {
                ">" => self.play_client(&message),
                "<" => self.play_agent(message),
                _ => {}
            }
        }
    }

    pub(crate) fn protocol(&self) -> &dyn Protocol {
        self.protocol.as_deref().unwrap()
    }

    fn take(&mut self, recorded: Option<u64>, steps: Vec<Step>) {
        if let (Some(recorded), Some(sent)) = (recorded, last_sent(&steps)) {
            self.ids.insert(recorded, sent["id"].clone());
        }
        self.steps.extend(steps);
    }

    /// Handles a message of the recorded client.
    fn play_client(&mut self, message: &Value) {
        let (id, params) = (message["id"].as_u64(), &message["params"]);
        let text = |sandbox: &str| {
            params
                .pointer(sandbox)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        };
        match message["method"].as_str() {
            Some("thread/start" | "thread/resume" | "session/new") => {
                let mut protocol = (self.make)(params["threadId"].as_str());
                let hello = last_sent(&protocol.begin()).unwrap();
                self.hello["id"] = hello["id"].clone();
                let steps = protocol.line(self.hello.to_string().as_bytes());
                self.protocol = Some(protocol);
                self.take(id, steps);
            }
            // A request that our state machines never make.
            Some("turn/start") if params["input"] == json!([]) => {}
            Some("turn/start") => self.call(id, |protocol| protocol.prompt(&text("/input/0/text"))),
            Some("session/prompt") => {
                self.call(id, |protocol| protocol.prompt(&text("/prompt/0/text")));
            }
            Some("turn/steer") => self.call(id, |protocol| {
                let steered = protocol.steer(SteerId(1), &text("/input/0/text"));
                steered.unwrap_or_default()
            }),
            Some("turn/interrupt") => self.call(id, |protocol| protocol.interrupt()),
            None if message["result"]["outcome"]["optionId"] == json!("proceed_once") => {
                let allow = windlass_core::backend::PermissionDecision::Allow;
                let request = message["id"].to_string();
                let steps = self
                    .protocol
                    .as_mut()
                    .unwrap()
                    .answer(&request, &allow)
                    .unwrap();
                assert_eq!(last_sent(&steps).as_ref(), Some(message));
                self.steps.extend(steps);
            }
            _ => {}
        }
    }

    fn call(&mut self, id: Option<u64>, action: impl FnOnce(&mut dyn Protocol) -> Vec<Step>) {
        let steps = action(self.protocol.as_deref_mut().unwrap());
        self.take(id, steps);
    }

    /// Handles a message of the recorded agent.
    fn play_agent(&mut self, mut message: Value) {
        let is_reply = message.get("method").is_none();
        let Some(protocol) = &mut self.protocol else {
            if is_reply {
                self.hello = message;
            }
            return;
        };
        if is_reply {
            let recorded = message["id"].as_u64().unwrap();
            let Some(own) = self.ids.get(&recorded) else {
                return;
            };
            message["id"] = own.clone();
        }
        self.steps
            .extend(protocol.line(message.to_string().as_bytes()));
    }
}

/// Returns the last message that steps send.
pub(crate) fn last_sent(steps: &[Step]) -> Option<Value> {
    let mut sent = steps.iter().rev().filter_map(|step| match step {
        Step::Send(line) => Some(line),
        _ => None,
    });
    sent.next().map(|line| serde_json::from_str(line).unwrap())
}
