//! A model that makes the call which it is told to make, and then is done.

use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_testkit::{After, Answer, FakeServer, Reply, Request, Wire};

/// What stands before a call in a prompt.
pub(super) const CALL: &str = "CALL ";

/// The model, in a runtime of its own. It outlives the daemons.
pub(super) struct Model {
    server: FakeServer,
    _runtime: Runtime,
}

impl Model {
    pub(super) fn start() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let server = runtime.block_on(FakeServer::answering(|request: &Request| Reply {
            status: 200,
            headers: Vec::new(),
            chunks: Wire::Anthropic.events(&answer(&request.json())),
            after: After::End,
        }));
        Ok(Self {
            server: server.map_err(|error| error.to_string())?,
            _runtime: runtime,
        })
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }
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
