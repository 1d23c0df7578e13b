//! All that was said and done in a thread, with what a fork shares with its parent under names of its own.

use std::pin::Pin;

use windlass_core::typed_id::{ItemId, MessageId, SessionId, TurnId};
use windlass_protocol::{Item, Turn};
use windlass_store::queries::{Origin, ThreadDetail, TurnDetail};

use crate::app::App;
use crate::error::ApiError;
use crate::ids::{self, Renamed};
use crate::view;

/// One turn with its items.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) id: TurnId,
    pub(crate) turn: Turn,
    pub(crate) items: Vec<Item>,
    /// The message that started it.
    pub(crate) input: Option<MessageId>,
    /// Whether somebody said something with it: one that makes the history shorter answers nobody.
    pub(crate) is_said: bool,
}

/// The turns of a thread, oldest first.
pub(crate) type Conversation = Vec<Told>;

/// Shows a turn with its items.
pub(crate) fn told(TurnDetail { row, log, .. }: &TurnDetail) -> Told {
    let items = log.items_of(row.view.id);
    Told {
        id: row.view.id,
        turn: view::turn(&row.view),
        items: items.map(|item| view::item(&item)).collect(),
        input: row.view.input_message_id,
        is_said: row.view.outline.compaction.is_none(),
    }
}

/// Shows the newest turns of a thread, those that it shares with its parents included. `own` has its own ones.
pub(crate) async fn conversation(
    app: &App,
    id: SessionId,
    own: &ThreadDetail,
    newest: usize,
) -> Result<Conversation, ApiError> {
    let mut all = match own.turns.len() < newest {
        true => inherited(app, id, own.thread.origin).await?,
        false => Vec::new(),
    };
    all.extend(own.turns.iter().map(told));
    all.drain(..all.len().saturating_sub(newest));
    Ok(all)
}

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<Conversation, ApiError>> + Send + 'a>>;

fn inherited(app: &App, id: SessionId, origin: Option<Origin>) -> Boxed<'_> {
    Box::pin(async move {
        let Some(origin) = origin else {
            return Ok(Vec::new());
        };
        let stream = origin.parent.into();
        let parent = app.queries.thread_detail(&stream, usize::MAX).await?;
        let Some(mut parent) = parent else {
            return Ok(Vec::new());
        };
        let is_shared = |turn: &TurnDetail| turn.row.first_seq <= origin.sequence;
        parent.turns.retain(is_shared);
        let mut all = conversation(app, origin.parent, &parent, usize::MAX).await?;
        if let Some(dropped) = origin.dropped {
            let kept = all.iter().position(|told| told.id == dropped);
            all.truncate(kept.unwrap_or(all.len()));
        }
        all.iter_mut().for_each(|told| rename(told, id));
        Ok(all)
    })
}

fn rename(told: &mut Told, fork: SessionId) {
    let names = Renamed(fork);
    let item_name = |id: &str| {
        let id = ItemId::parse(id).map(|id| names.item(id));
        id.map(|id| id.to_string()).unwrap_or_default()
    };
    told.id = names.turn(told.id);
    told.input = told.input.map(|id| names.message(id));
    told.turn.id = told.id.to_string();
    told.turn.thread_id = ids::thread(fork);
    for id in &mut told.turn.item_ids {
        *id = item_name(id);
    }
    for item in &mut told.items {
        item.id = item_name(&item.id);
        item.turn_id.clone_from(&told.turn.id);
    }
}
