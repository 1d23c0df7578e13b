//! A model that a test speaks for, piece by piece, over the wire of a provider.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_testkit::{Answer, Exchange, FakeServer, Reply, Request, Wire};

/// The model, in a runtime of its own, so that tests can block.
pub(crate) struct Model {
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

impl Model {
    pub(crate) fn start() -> Self {
        let runtime = runtime();
        let server = runtime.block_on(FakeServer::start()).unwrap();
        Self { runtime, server }
    }

    /// Starts a model that answers by itself.
    pub(crate) fn answering(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let runtime = runtime();
        let reply = move |request: &Request| Reply {
            status: 200,
            headers: Vec::new(),
            chunks: Wire::Anthropic.events(&answer(&request.json())),
        };
        let server = runtime.block_on(FakeServer::answering(reply)).unwrap();
        Self { runtime, server }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Waits for the next request.
    #[track_caller]
    pub(crate) fn asked(&mut self) -> Exchange {
        let patience = Duration::from_secs(60);
        let next = async { tokio::time::timeout(patience, self.server.next()).await };
        match self.runtime.block_on(next) {
            Ok(exchange) => exchange,
            Err(_) => panic!("the model was not asked"),
        }
    }

    /// Begins to answer and stops after the first piece of text.
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

    pub(crate) fn say(&self, exchange: Exchange, answer: &Answer) {
        let events = Wire::Anthropic.events(answer);
        self.runtime.block_on(exchange.stream(&events)).unwrap();
    }

    /// Answers the next request.
    #[track_caller]
    pub(crate) fn answer(&mut self, answer: &Answer) -> Value {
        let exchange = self.asked();
        let request = exchange.request.json();
        self.say(exchange, answer);
        request
    }
}
