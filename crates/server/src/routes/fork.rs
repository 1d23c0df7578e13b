//! Forks: a new thread that begins with what another one said, whole or up to a turn.
//!
//! What a fork shares is shown under names of its own and read from the parent. The model's history is carried over
//! message by message, so that the fork goes on as the parent would have.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use chrono::Utc;
use windlass_core::events::{EventData, SessionForkedData};
use windlass_core::message::{Message, MessageRole};
use windlass_core::typed_id::{MessageId, SessionId, TurnId};
use windlass_protocol::{
    ErrorCode, RetryThread, StartTurn, Status, Thread, ThreadAndTurn, UndoThread, UndoneThread,
};
use windlass_runtime::RuntimeHostAdapter;

use super::turns::said;
use super::{Answer, json};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::http::body::{Nothing, Optional};
use crate::ids::{self, Renamed};
use crate::threads::{Conversation, FoundThread, conversation};

/// Where a fork ends.
struct Cut {
    /// The number of the parent's newest record.
    sequence: u64,
    /// The first turn that the fork does not have, and the message that started it.
    dropped: Option<(TurnId, Option<MessageId>)>,
    depth: Option<u32>,
    /// The turn before, under its old name.
    latest: Option<TurnId>,
    /// What the first dropped turn was told.
    said: String,
}

pub(super) async fn fork(State(app): State<Shared>, Path(id): Path<String>, _: Nothing) -> Answer {
    let (parent, told) = app.told(&id).await?;
    // A turn that is not at its end belongs to the parent alone.
    let running = told
        .iter()
        .position(|told| told.turn.status == Status::InProgress);
    let sequence = parent.row.seq;
    let cut = cut_at(&told, running.unwrap_or(told.len()), sequence, None);
    let fork = app.make_fork(&parent, &cut).await?;
    json(StatusCode::CREATED, &app.shown(fork, &cut))
}

pub(super) async fn undo(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Optional(request): Optional<UndoThread>,
) -> Answer {
    let (parent, cut) = app.cut_before(&id, request.depth).await?;
    let fork = app.make_fork(&parent, &cut).await?;
    let answer = UndoneThread {
        thread: app.shown(fork, &cut),
        original_user_text: cut.said,
    };
    json(StatusCode::CREATED, &answer)
}

pub(super) async fn retry(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Optional(request): Optional<RetryThread>,
) -> Answer {
    app.find(&id).await?;
    if let Some(fork) = app.made_before().await?
        && let Some(answer) = app.started_before(&fork).await?
    {
        return json(StatusCode::CREATED, &answer);
    }
    let (parent, cut) = app.cut_before(&id, request.depth).await?;
    let prompt = request.prompt.unwrap_or_else(|| cut.said.clone());
    said(&prompt)?;
    // All that can be refused is, before there is a fork that nobody asked for.
    let input = app
        .input(&parent.thread, &prompt, StartTurn::default())
        .await?;
    let fork = app.make_fork(&parent, &cut).await?;
    let fork_id = fork.id;
    match app.start_turn(fork, input).await {
        Ok((_, ThreadAndTurn { thread, turn })) => {
            json(StatusCode::CREATED, &ThreadAndTurn { thread, turn })
        }
        Err(error) => {
            let _ = app.forget(fork_id).await;
            Err(error)
        }
    }
}

fn cut_at(told: &Conversation, kept: usize, sequence: u64, depth: Option<u32>) -> Cut {
    let dropped = told.get(kept);
    let said = dropped.and_then(|told| told.items.first()?.detail.clone());
    Cut {
        sequence,
        dropped: dropped.map(|told| (told.id, told.input)),
        depth,
        latest: kept
            .checked_sub(1)
            .and_then(|last| told.get(last))
            .map(|told| told.id),
        said: said.unwrap_or_default(),
    }
}

impl App {
    async fn told(&self, id: &str) -> Result<(FoundThread, Conversation), ApiError> {
        let (found, whole) = self.whole(id, usize::MAX).await?;
        let told = conversation(self, found.id, &whole, usize::MAX).await?;
        Ok((found, told))
    }

    /// Finds the turn to go back to.
    async fn cut_before(&self, id: &str, depth: u32) -> Result<(FoundThread, Cut), ApiError> {
        let (parent, told) = self.told(id).await?;
        let mut said = (0..told.len()).filter(|place| told[*place].is_said);
        let back = usize::try_from(depth).unwrap_or(usize::MAX);
        let Some(kept) = said.clone().nth_back(back) else {
            let text = format!(
                "fork_at_user_message: depth {depth} exceeds {} user turn(s)",
                said.by_ref().count()
            );
            return Err(ApiError::new(ErrorCode::DepthOutOfRange, text));
        };
        let cut = cut_at(&told, kept, parent.row.seq, Some(depth));
        Ok((parent, cut))
    }

    async fn forget(&self, id: SessionId) -> Result<(), ApiError> {
        Ok(self.runtime.remove_session(id).await?)
    }

    async fn make_fork(&self, parent: &FoundThread, cut: &Cut) -> Result<FoundThread, ApiError> {
        if let Some(made) = self.made_before().await? {
            if made.row.latest.is_some() {
                return Ok(made);
            }
            // Nobody was told of it, and it may lack what comes last.
            self.forget(made.id).await?;
        }
        let history = self.shared_history(parent, cut).await?;
        let now = ids::time(Utc::now());
        let thread = Thread {
            created_at: now.clone(),
            updated_at: now,
            latest_turn_id: None,
            archived: false,
            ..parent.thread.clone()
        };
        let fork = self
            .open_thread(thread, |thread| forked(thread, parent, cut))
            .await?;
        let messages = self.runtime.message_store();
        let names = Renamed(fork.id);
        for mut message in history {
            message.id = names.message(message.id);
            if let Err(error) = messages.store_message(fork.id, message).await {
                let _ = self.forget(fork.id).await;
                return Err(error.into());
            }
        }
        self.thread(fork.id).await
    }

    /// Returns what the model of a fork remembers: what that of the parent does, up to the message that started the first
    /// dropped turn. Where a summary stands for that turn, it is all that was said before.
    async fn shared_history(
        &self,
        parent: &FoundThread,
        cut: &Cut,
    ) -> Result<Vec<Message>, ApiError> {
        let mut history = self.runtime.context_messages(parent.id).await?;
        if let Some((_, Some(input))) = cut.dropped {
            let place_in = |messages: &[Message]| {
                let mut messages = messages.iter();
                messages.position(|message| message.id == input)
            };
            if let Some(place) = place_in(&history) {
                history.truncate(place);
            } else {
                let mut all = self.runtime.messages(parent.id).await?;
                if let Some(place) = place_in(&all) {
                    all.truncate(place);
                    history = all;
                }
            }
        }
        history.retain(|message| message.role != MessageRole::System);
        Ok(history)
    }

    /// Shows a fork; its newest turn is the one that it shares.
    fn shown(&self, fork: FoundThread, cut: &Cut) -> Thread {
        let mut thread = fork.thread;
        let shared = cut.latest.map(|id| Renamed(fork.id).turn(id).to_string());
        thread.latest_turn_id = thread.latest_turn_id.or(shared);
        thread
    }
}

fn forked(thread: &Thread, parent: &FoundThread, cut: &Cut) -> Result<EventData, ApiError> {
    let record = serde_json::to_value(thread).map_err(ApiError::internal)?;
    Ok(SessionForkedData {
        parent_session_id: parent.id,
        parent_sequence: cut.sequence,
        record: Some(record),
        dropped_turn_id: cut.dropped.map(|(id, _)| id),
        depth: cut.depth,
    }
    .into())
}
