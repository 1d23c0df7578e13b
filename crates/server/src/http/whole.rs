//! A request that changes something is carried to its end, also when its client goes away meanwhile.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::Shared;
use crate::error::Refusal;

/// Carries a request that is not safe to its end.
pub(crate) async fn carry(State(app): State<Shared>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let answer = app.service.carry(next.run(request)).await;
    answer.unwrap_or_else(|refusal| Refusal(refusal).into_response())
}
