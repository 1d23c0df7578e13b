//! Making the history shorter. The runtime cannot do that by itself yet.

use axum::extract::{Path, State};
use windlass_protocol::CompactThread;

use super::Answer;
use crate::app::Shared;
use crate::error::ApiError;
use crate::http::body::Optional;

pub(super) async fn compact(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Optional(_): Optional<CompactThread>,
) -> Answer {
    let entry = app.threads.find(&app.runtime, &id).await?;
    if let Some(active) = entry.digest().active() {
        return Err(ApiError::turn_active(active.id));
    }
    Err(ApiError::not_implemented("compaction on request"))
}
