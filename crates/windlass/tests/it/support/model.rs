//! A scripted model that answers piece by piece over a provider's wire protocol.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_testkit::{After, Answer, Exchange, FakeServer, Reply, Request, Wire};

/// All requests that a model received.
#[derive(Clone, Default)]
pub(crate) struct ModelRequests(Arc<Mutex<Vec<Value>>>);

impl ModelRequests {
    /// Returns all requests as one text.
    pub(crate) fn text(&self) -> String {
        let requests = self.0.lock().unwrap();
        requests.iter().map(Value::to_string).collect()
    }

    /// Returns the names of the tools in the last request.
    pub(crate) fn tools(&self) -> Vec<String> {
        let requests = self.0.lock().unwrap();
        let tools = requests.last().unwrap()["tools"].as_array().cloned();
        let names = tools.unwrap().into_iter();
        names
            .map(|tool| crate::support::text(&tool["name"]))
            .collect()
    }

    /// Returns the tool results in the last request.
    pub(crate) fn results(&self) -> Vec<String> {
        self.0.lock().unwrap().last().map_or_else(Vec::new, results)
    }
}

/// Returns the tool results in a request.
fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let blocks = messages.filter_map(|message| message["content"].as_array());
    let blocks = blocks.flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].to_string()).collect()
}

/// The model, with its own runtime, so that tests can block.
pub(crate) struct ScriptedModel {
    runtime: Runtime,
    server: FakeServer,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

impl ScriptedModel {
    pub(crate) fn start() -> Self {
        let runtime = runtime();
        let server = runtime.block_on(FakeServer::start()).unwrap();
        Self { runtime, server }
    }

    /// Starts a model that answers automatically.
    pub(crate) fn answering(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let runtime = runtime();
        let reply = move |request: &Request| Reply {
            status: 200,
            headers: Vec::new(),
            chunks: Wire::Anthropic.events(&answer(&request.json())),
            after: After::End,
        };
        let server = runtime.block_on(FakeServer::answering(reply)).unwrap();
        Self { runtime, server }
    }

    /// Starts a model that makes these calls one after the other and then ends the turn.
    pub(crate) fn calling(calls: Vec<(&'static str, Value)>) -> (Self, ModelRequests) {
        let requests = ModelRequests::default();
        let recorded = requests.clone();
        let model = Self::answering(move |request| {
            recorded.0.lock().unwrap().push(request.clone());
            let number = results(request).len();
            match calls.get(number) {
                Some((name, arguments)) => {
                    let (id, arguments) = (format!("toolu_{number}"), arguments.to_string());
                    Answer::default().with_call(&id, name, &[&arguments])
                }
                None => Answer::text(&["done"]),
            }
        });
        (model, requests)
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Waits for the next request.
    #[track_caller]
    pub(crate) fn next_request(&mut self) -> Exchange {
        let patience = Duration::from_secs(60);
        let next = async { tokio::time::timeout(patience, self.server.next()).await };
        match self.runtime.block_on(next) {
            Ok(exchange) => exchange,
            Err(_) => panic!("the model was not asked"),
        }
    }

    /// Starts an answer and stops after the first piece of text.
    pub(crate) fn say_half(&self, exchange: &mut Exchange, half: &str) {
        let events = Wire::Anthropic.events(&Answer::text(&[half, " never said"]));
        let until = events.iter().position(|event| event.contains(half));
        self.runtime.block_on(async {
            exchange.begin_stream(&[]).await.unwrap();
            for event in &events[..=until.unwrap()] {
                exchange.chunk(event.as_bytes()).await.unwrap();
            }
        });
    }

    /// Continues an answer that `say_half` started with another piece of text.
    pub(crate) fn say_more(&self, exchange: &mut Exchange, more: &str) {
        let events = Wire::Anthropic.events(&Answer::text(&[more]));
        let mut delta = events.iter().filter(|event| event.contains(more));
        let delta = delta.next().unwrap();
        self.runtime
            .block_on(exchange.chunk(delta.as_bytes()))
            .unwrap();
    }

    pub(crate) fn say(&self, exchange: Exchange, answer: &Answer) {
        let events = Wire::Anthropic.events(answer);
        self.runtime.block_on(exchange.stream(&events)).unwrap();
    }

    /// Answers the next request with an error.
    #[track_caller]
    pub(crate) fn refuse(&mut self, status: u16, message: &str) {
        let exchange = self.next_request();
        let body = Wire::Anthropic.error(status, message).to_string();
        let answered = exchange.answer(status, &[], &body);
        self.runtime.block_on(answered).unwrap();
    }

    /// Answers the next request.
    #[track_caller]
    pub(crate) fn answer(&mut self, answer: &Answer) -> Value {
        let exchange = self.next_request();
        let request = exchange.request.json();
        self.say(exchange, answer);
        request
    }
}
