//! Turns and items that a fork shares with its parent, with IDs of the fork.

use windlass_core::typed_id::{ItemId, SessionId};
use windlass_protocol::{Item, Turn};

use crate::ids::{self, ForkIds};

/// Gives a shared turn and its items their IDs in a fork. Call IDs are unchanged: the calls can no longer be answered.
pub(crate) fn use_fork_ids(turn: &mut Turn, items: &mut [Item], fork: SessionId) {
    let names = ForkIds(fork);
    if let Some(id) = ids::parse_turn(&turn.id) {
        turn.id = names.turn(id).to_string();
    }
    turn.thread_id = ids::thread(fork);
    for id in &mut turn.item_ids {
        *id = fork_item_id(id, names);
    }
    for item in items {
        use_fork_item_ids(item, &turn.id, fork);
    }
}

/// Gives an item of a shared turn its IDs in a fork.
pub(crate) fn use_fork_item_ids(item: &mut Item, turn_id: &str, fork: SessionId) {
    item.id = fork_item_id(&item.id, ForkIds(fork));
    turn_id.clone_into(&mut item.turn_id);
}

fn fork_item_id(id: &str, names: ForkIds) -> String {
    let id = ItemId::parse(id).map(|id| names.item(id));
    id.map(|id| id.to_string()).unwrap_or_default()
}
