//! A model that makes the call given in the prompt, and then ends the turn.

use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_testkit::{After, Answer, FakeServer, Reply, Request, Wire};

/// Prefix of a call in a prompt.
pub(crate) const CALL: &str = "CALL ";

/// Prefix of a prompt that the model refuses.
pub(crate) const FAIL: &str = "FAIL ";

/// The model, in its own runtime. It outlives the daemons.
pub(crate) struct ScriptedModel {
    server: FakeServer,
    _runtime: Runtime,
}

impl ScriptedModel {
    pub(crate) fn start() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let server = runtime.block_on(FakeServer::answering(|request: &Request| {
            let request = request.json();
            let (status, chunks) = if is_refused(&request) {
                (400, vec![REFUSAL.to_owned()])
            } else {
                (200, Wire::Anthropic.events(&answer(&request)))
            };
            Reply {
                status,
                headers: Vec::new(),
                chunks,
                after: After::End,
            }
        }));
        Ok(Self {
            server: server.map_err(|error| error.to_string())?,
            _runtime: runtime,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }
}

const REFUSAL: &str =
    r#"{"type":"error","error":{"type":"invalid_request_error","message":"it is refused"}}"#;

/// Returns whether the model refuses the last message.
fn is_refused(request: &Value) -> bool {
    let messages = request["messages"].as_array();
    let Some(last) = messages.and_then(|messages| messages.last()) else {
        return false;
    };
    let blocks = last["content"].as_array().cloned().unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| block["text"].as_str());
    let mut texts = texts.chain(last["content"].as_str());
    texts.any(|text| text.starts_with(FAIL))
}

/// Makes the call of the last prompt; once it has a result, whatever it is, the model is done.
fn answer(request: &Value) -> Answer {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    for message in messages.iter().rev() {
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        if blocks.iter().any(|block| block["type"] == "tool_result") {
            return Answer::text(&["It is ", "done."]);
        }
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        let mut texts = texts.chain(message["content"].as_str());
        if let Some(call) = texts.find_map(|text| text.strip_prefix(CALL)) {
            let call: Value = serde_json::from_str(call).unwrap_or_default();
            let name = call["name"].as_str().unwrap_or_default();
            let arguments = call["arguments"].to_string();
            return Answer::default().with_call("toolu_1", name, &[&arguments]);
        }
    }
    Answer::text(&["Nothing was asked."])
}
