//! A Runtime API for tests that records calls and answers them from a table.

use std::sync::Mutex;

use serde_json::{Value, json};
use windlass_protocol::operations::{self, Endpoint, Path, Query};
use windlass_protocol::{
    Call, CallError, CallFuture, Page, Parts, ResponseStream, RuntimeApi, for_each_operation,
};

/// Responds to each operation with the JSON under its name; an operation without an entry is an error.
pub(crate) struct StubApi {
    answers: Value,
    calls: Mutex<Vec<String>>,
}

impl StubApi {
    pub(crate) fn new(answers: Value) -> Self {
        Self {
            answers,
            calls: Mutex::default(),
        }
    }

    /// Returns and clears the recorded calls: names, path parameters and queries.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn answer<E: Endpoint>(&self, call: &Call<E>) -> Result<Value, CallError> {
        let name = E::OPERATION.name;
        let mut text = name.to_owned();
        for (_, value) in call.path.parameters() {
            text += &format!(" {value}");
        }
        for (name, value) in call.query.pairs() {
            text += &format!(" {name}={value}");
        }
        self.calls.lock().unwrap().push(text);
        let answer = self.answers.get(name).cloned();
        answer.ok_or_else(|| CallError::InvalidRequest(format!("{name} has no answer")))
    }
}

/// An empty stream.
struct Empty;

impl<T: Send> Parts<T> for Empty {
    fn next(&mut self) -> CallFuture<'_, Option<T>> {
        Box::pin(async { Ok(None) })
    }
}

fn empty<T: Send>() -> ResponseStream<T> {
    Box::new(Empty)
}

macro_rules! response {
    (Json $answer:ident) => {
        serde_json::from_value($answer)?
    };
    (List $answer:ident) => {
        Page::from(serde_json::from_value::<Vec<_>>($answer)?)
    };
    (Text $answer:ident) => {
        serde_json::from_value($answer)?
    };
    (Empty $answer:ident) => {
        drop($answer)
    };
    ($stream:ident $answer:ident) => {{
        drop($answer);
        empty()
    }};
}

macro_rules! implement {
    ($($name:ident $function:ident $form:ident;)*) => {
        impl RuntimeApi for StubApi {
            $(fn $function(
                &self,
                call: Call<operations::$name>,
            ) -> CallFuture<'_, <operations::$name as Endpoint>::Response> {
                Box::pin(async move {
                    let answer = self.answer(&call)?;
                    Ok(response!($form answer))
                })
            })*
        }
    };
}

for_each_operation!(implement);

pub(crate) fn thread_json() -> Value {
    json!({
        "schema_version": 2, "id": "thr_1", "created_at": "", "updated_at": "", "model": "sim", "workspace": "/",
        "mode": "agent", "allow_shell": true, "trust_mode": false, "auto_approve": false, "archived": false,
    })
}

/// Returns the JSON of a running turn.
pub(crate) fn turn_json() -> Value {
    json!({
        "schema_version": 2, "id": "turn_1", "thread_id": "thr_1", "status": "in_progress", "input_summary": "",
        "created_at": "", "item_ids": [], "steer_count": 0,
    })
}

/// Returns the JSON of a thread whose latest event is 7.
pub(crate) fn detail_json() -> Value {
    json!({ "thread": thread_json(), "turns": [], "items": [], "latest_seq": 7 })
}
