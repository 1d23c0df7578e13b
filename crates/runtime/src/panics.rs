//! Code of the application that panics is an error of its own, and not the end of a thread.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use windlass_core::error::{AgentLoopError, Result};

/// Calls code of the application; `None` when it panicked. What it holds is not used again then.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Waits for code of the application; `None` when it panicked.
pub(crate) async fn caught_in<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match caught(|| future.as_mut().poll(cx)) {
        Some(poll) => poll.map(Some),
        None => Poll::Ready(None),
    })
    .await
}

/// Waits for a store of the application's; one that panics has failed.
pub(crate) async fn tried<T>(store: impl Future<Output = Result<T>>) -> Result<T> {
    let panicked = || Err(AgentLoopError::store("the store panicked"));
    caught_in(store).await.unwrap_or_else(panicked)
}
