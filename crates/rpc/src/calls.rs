//! Calls of the server to its client, on the same connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::error::RpcError;
use crate::frame;
use crate::outbox::Outbox;

/// `None` when the connection is gone: nobody will answer any more.
type Waiting = Option<HashMap<String, oneshot::Sender<Result<Value, Value>>>>;

/// The calls of one connection that wait for their answers; clones share them.
#[derive(Debug, Clone)]
pub struct ClientCalls {
    outbox: Outbox,
    next: Arc<AtomicU64>,
    waiting: Arc<Mutex<Waiting>>,
}

impl ClientCalls {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            next: Arc::new(AtomicU64::new(1)),
            waiting: Arc::new(Mutex::new(Some(HashMap::new()))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the client and waits for its answer. The inner error is the client's own.
    pub async fn call(
        &self,
        method: &str,
        params: &Value,
        patience: Duration,
    ) -> Result<Result<Value, Value>, RpcError> {
        let id = format!("cb-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        let gone =
            || RpcError::internal(format!("the client went away before it answered {method}"));
        match &mut *self.lock() {
            Some(waiting) => drop(waiting.insert(id.clone(), answer)),
            None => return Err(gone()),
        }
        let _forget = Forget {
            calls: self,
            id: &id,
        };
        if !self.outbox.send(frame::request(&id, method, params)).await {
            return Err(gone());
        }
        match tokio::time::timeout(patience, answered).await {
            Ok(answered) => answered.map_err(|_| gone()),
            Err(_) => Err(RpcError::deadline(format!(
                "the client did not answer {method} within {} ms",
                patience.as_millis()
            ))),
        }
    }

    /// Takes an answer; one that nobody waits for is ignored.
    pub(crate) fn answer(&self, id: &Value, outcome: Result<Value, Value>) {
        let waiting = id.as_str().and_then(|id| self.lock().as_mut()?.remove(id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }

    /// Lets all who wait know that nobody will answer.
    pub(crate) fn give_up(&self) {
        *self.lock() = None;
    }
}

/// A call that is no longer waited for leaves nothing behind.
struct Forget<'a> {
    calls: &'a ClientCalls,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *self.calls.lock() {
            waiting.remove(self.id);
        }
    }
}
