//! The four wire APIs, implemented from their documentation and independent of the drivers.

mod anthropic;
mod gemini;
mod openai;
mod openai_chat;

use serde_json::{Value, json};

/// A wire API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's Responses API.
    OpenAi,
    /// OpenAI's Chat Completions.
    OpenAiChat,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
}

/// An answer of the fake model.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Thinking, in chunks.
    pub thinking: Vec<String>,
    /// Signature of the thinking, or its encrypted form.
    pub signature: Option<String>,
    /// Text, in chunks.
    pub text: Vec<String>,
    /// Tool calls in their order.
    pub calls: Vec<FakeCall>,
    /// Token usage of the answer.
    pub tokens: Tokens,
    /// Stop reason in the API's own spelling. Default: the one that fits the answer.
    pub stop: Option<String>,
}

/// A tool call with its arguments in chunks.
#[derive(Debug, Clone)]
pub struct FakeCall {
    /// ID of the call at the provider.
    pub id: String,
    pub name: String,
    /// Chunks of the arguments as JSON text.
    pub arguments: Vec<String>,
}

/// Token counts. Input includes cached tokens, and output includes reasoning.
#[derive(Debug, Clone, Copy)]
pub struct Tokens {
    /// Number of input tokens.
    pub read: u32,
    /// Input tokens read from a cache.
    pub cached: u32,
    /// Number of output tokens.
    pub written: u32,
    /// Output tokens used for reasoning.
    pub reasoning: u32,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            read: 14,
            cached: 3,
            written: 7,
            reasoning: 2,
        }
    }
}

impl Answer {
    /// Creates an answer with text.
    #[must_use]
    pub fn text(pieces: &[&str]) -> Self {
        Self {
            text: pieces.iter().map(|piece| (*piece).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a call.
    #[must_use]
    pub fn with_call(mut self, id: &str, name: &str, arguments: &[&str]) -> Self {
        self.calls.push(FakeCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.iter().map(|piece| (*piece).to_owned()).collect(),
        });
        self
    }

    /// Adds thinking and its signature.
    #[must_use]
    pub fn with_thinking(mut self, pieces: &[&str], signature: &str) -> Self {
        self.thinking = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        self.signature = Some(signature.to_owned());
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn with_stop(mut self, stop: &str) -> Self {
        self.stop = Some(stop.to_owned());
        self
    }
}

impl Wire {
    /// All four APIs, for tests that iterate over them.
    pub const ALL: [Self; 4] = [
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Anthropic,
        Self::Gemini,
    ];

    /// Returns the events of an answer, each with its closing empty line.
    #[must_use]
    pub fn events(self, answer: &Answer) -> Vec<String> {
        match self {
            Self::OpenAi => openai::events(answer),
            Self::OpenAiChat => openai_chat::events(answer),
            Self::Anthropic => anthropic::events(answer),
            Self::Gemini => gemini::events(answer),
        }
    }

    /// Returns the body of an error.
    #[must_use]
    pub fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::OpenAi | Self::OpenAiChat => openai::error(status, message),
            Self::Anthropic => anthropic::error(status, message),
            Self::Gemini => gemini::error(status, message),
        }
    }

    /// Returns the HTTP status of an overloaded provider.
    #[must_use]
    pub const fn overloaded(self) -> u16 {
        match self {
            Self::Anthropic => 529,
            _ => 503,
        }
    }

    /// Returns status and body of the response to an oversized prompt.
    #[must_use]
    pub fn too_long(self) -> (u16, Value) {
        let body = match self {
            Self::OpenAi | Self::OpenAiChat => json!({ "error": {
                "message": "Your input exceeds the context window of this model.",
                "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded",
            } }),
            Self::Anthropic => {
                anthropic::error(400, "prompt is too long: 210000 tokens > 200000 maximum")
            }
            Self::Gemini => gemini::error(
                400,
                "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        };
        (400, body)
    }

    /// Returns the event with which an overloaded provider aborts a stream.
    #[must_use]
    pub fn error_event(self) -> String {
        match self {
            Self::OpenAi => named(
                "error",
                &json!({ "type": "error", "code": "server_is_overloaded", "message": "busy", "param": null, "sequence_number": 9 }),
            ),
            Self::OpenAiChat => {
                plain(&json!({ "error": { "message": "busy", "code": "overloaded" } }))
            }
            Self::Anthropic => named("error", &anthropic::error(529, "busy")),
            Self::Gemini => plain(&gemini::error(503, "busy")),
        }
    }
}

fn named(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn plain(data: &Value) -> String {
    format!("data: {data}\n\n")
}
