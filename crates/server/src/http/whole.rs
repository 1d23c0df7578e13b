//! A request that changes something is carried to its end, also when its client goes away meanwhile.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::Shared;
use crate::error::ApiError;

/// Works in a task of its own, because the one of a connection ends with it.
pub(crate) async fn carry(State(app): State<Shared>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let working = app.working.spawn(next.run(request));
    let answer = working.await;
    answer.unwrap_or_else(|error| ApiError::internal(error).into_response())
}
