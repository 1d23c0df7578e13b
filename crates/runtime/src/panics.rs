//! A panic in application code becomes an error and does not end a thread.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use windlass_core::error::{AgentLoopError, Result};

/// Calls application code; `None` if it panicked. Its state is not used again after that.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Awaits application code; `None` if it panicked.
pub(crate) async fn catch_panic_async<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_panic(|| future.as_mut().poll(cx)) {
        Some(poll) => poll.map(Some),
        None => Poll::Ready(None),
    })
    .await
}

/// Awaits a store of the application; a panic counts as a failure.
pub(crate) async fn call_store<T>(store: impl Future<Output = Result<T>>) -> Result<T> {
    let panicked = || Err(AgentLoopError::store("the store panicked"));
    catch_panic_async(store).await.unwrap_or_else(panicked)
}
