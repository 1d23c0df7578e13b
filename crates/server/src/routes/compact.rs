//! Making the history shorter for the model.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use windlass_protocol::{CompactThread, StartTurn};

use super::create::filled;
use super::turns::Work;
use super::{Answer, json};
use crate::app::Shared;
use crate::http::body::Optional;

/// Why, when nobody says.
const REASON: &str = "Manual context compaction";

pub(super) async fn compact(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Optional(request): Optional<CompactThread>,
) -> Answer {
    let found = app.find(&id).await?;
    if let Some(answer) = app.started_before(&found).await? {
        return json(StatusCode::ACCEPTED, &answer);
    }
    let reason = filled(request.reason).unwrap_or_else(|| REASON.to_owned());
    let input = app
        .input(&found.thread, &reason, StartTurn::default())
        .await?;
    let (_, answer) = app.begin(found, input, Work::Compact).await?;
    json(StatusCode::ACCEPTED, &answer)
}
