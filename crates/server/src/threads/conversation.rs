//! All that was said and done in a thread, with what a fork shares with its parent under names of its own.

use std::pin::Pin;

use windlass_core::typed_id::{ItemId, MessageId, SessionId, TurnId};
use windlass_protocol::{Item, Turn};

use super::digest::Origin;
use super::folds::Fold;
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

/// Reads the turns of a fold.
fn told(fold: &Fold) -> Conversation {
    let turns = fold.log.turns().iter();
    turns
        .map(|turn| Told {
            id: turn.id,
            turn: view::turn(turn),
            items: fold
                .log
                .items_of(turn.id)
                .map(|item| view::item(&item))
                .collect(),
            input: turn.input_message_id,
            is_said: turn.outline.compaction.is_none(),
        })
        .collect()
}

/// Reads a thread as it is now, and what it shares with its parents. `own` is its fold.
pub(crate) async fn conversation(
    app: &App,
    id: SessionId,
    own: &Fold,
) -> Result<Conversation, ApiError> {
    let mut all = inherited(app, id, own.digest.origin).await?;
    all.extend(told(own));
    Ok(all)
}

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<Conversation, ApiError>> + Send + 'a>>;

fn inherited(app: &App, id: SessionId, origin: Option<Origin>) -> Boxed<'_> {
    Box::pin(async move {
        let Some(origin) = origin else {
            return Ok(Vec::new());
        };
        let parent = app.threads.add(origin.parent);
        app.threads.bring_up(&app.runtime, &parent).await?;
        let further = parent.digest().origin;
        let mut all = inherited(app, origin.parent, further).await?;
        let mut fold = Fold::default();
        fold.advance(&app.runtime, origin.parent, origin.sequence)
            .await?;
        all.extend(told(&fold));
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
