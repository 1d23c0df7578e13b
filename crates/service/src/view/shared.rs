//! What a fork shares with its parent, under names of the fork.

use windlass_core::typed_id::{ItemId, SessionId};
use windlass_protocol::{Item, Turn};

use crate::ids::{self, Renamed};

/// Gives a shared turn and its items the names that they have in a fork. Those of its calls stay: nobody can answer them.
pub(crate) fn rename(turn: &mut Turn, items: &mut [Item], fork: SessionId) {
    let names = Renamed(fork);
    if let Some(id) = ids::parse_turn(&turn.id) {
        turn.id = names.turn(id).to_string();
    }
    turn.thread_id = ids::thread(fork);
    for id in &mut turn.item_ids {
        *id = item_name(id, names);
    }
    for item in items {
        rename_item(item, &turn.id, fork);
    }
}

/// Gives an item of a shared turn the names that it has in a fork.
pub(crate) fn rename_item(item: &mut Item, turn_id: &str, fork: SessionId) {
    item.id = item_name(&item.id, Renamed(fork));
    turn_id.clone_into(&mut item.turn_id);
}

fn item_name(id: &str, names: Renamed) -> String {
    let id = ItemId::parse(id).map(|id| names.item(id));
    id.map(|id| id.to_string()).unwrap_or_default()
}
