//! A request that changes something completes even if its client disconnects.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::SharedApp;
use crate::error::HttpRefusal;

/// Runs a request with an unsafe method in a task that is independent of its connection.
pub(crate) async fn detach(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let answer = app.service.run_detached(next.run(request)).await;
    answer.unwrap_or_else(|refusal| HttpRefusal(refusal).into_response())
}
