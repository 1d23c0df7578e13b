//! What a fork shares with its parent, under names of the fork.

use windlass_core::typed_id::{ItemId, SessionId};
use windlass_protocol::{Item, Turn};

use crate::ids::{self, Renamed};

/// Gives a shared turn and its items the names that they have in a fork. Those of its calls stay: nobody can answer them.
pub(crate) fn rename(turn: &mut Turn, items: &mut [Item], fork: SessionId) {
    let names = Renamed(fork);
    let item_name = |id: &str| {
        let id = ItemId::parse(id).map(|id| names.item(id));
        id.map(|id| id.to_string()).unwrap_or_default()
    };
    if let Some(id) = ids::parse_turn(&turn.id) {
        turn.id = names.turn(id).to_string();
    }
    turn.thread_id = ids::thread(fork);
    for id in &mut turn.item_ids {
        *id = item_name(id);
    }
    for item in items {
        item.id = item_name(&item.id);
        item.turn_id.clone_from(&turn.id);
    }
}
