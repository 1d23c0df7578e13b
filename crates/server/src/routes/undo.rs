//! Going back: a fork without the last turns.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use windlass_protocol::{UndoThread, UndoneThread};

use super::fork::Cut;
use super::retry::said_in;
use super::{Answer, json};
use crate::app::Shared;
use crate::http::body::Optional;

pub(super) async fn undo(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Optional(request): Optional<UndoThread>,
) -> Answer {
    let parent = app.find(&id).await?;
    let made = app.made_before().await?;
    let turn = app
        .turn_to_drop(&parent, request.depth, made.as_ref())
        .await?;
    let said = said_in(app.first_input(&parent, &turn).await?.as_deref());
    let fork = match made {
        Some(made) => made,
        None => {
            let cut = Cut::before(&parent, &turn, request.depth);
            app.make_fork(&parent, cut).await?
        }
    };
    let answer = UndoneThread {
        thread: fork.thread,
        original_user_text: said,
    };
    json(StatusCode::CREATED, &answer)
}
