//! The visible turns of a thread. Turns that a fork shares with its parent have IDs of the fork.

use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::{Item, Turn};
use windlass_store::queries::{Order, TurnDetail, TurnQuery, TurnRow};

use super::FoundThread;
use crate::error::{ApiError, Result};
use crate::ids::{self, ForkIds};
use crate::service::Service;
use crate::view;

/// Turns read at a time in a search.
const PAGE: usize = 64;

/// Returns a turn with its items, as visible in the thread.
pub(crate) fn turn_with_items(
    id: SessionId,
    TurnDetail { row, log, .. }: &TurnDetail,
) -> (Turn, Vec<Item>) {
    let items = log.items_of(row.view.id);
    let mut items: Vec<Item> = items.map(|item| view::item(&item)).collect();
    let mut turn = view::turn(&row.view);
    if row.is_shared {
        view::use_fork_ids(&mut turn, &mut items, id);
    }
    (turn, items)
}

impl FoundThread {
    /// Returns the sequence number of the newest record that a fork shares with its parent.
    pub(crate) fn shared(&self) -> u64 {
        self.row.origin.map_or(0, |origin| origin.sequence)
    }

    /// Returns the visible ID of a turn in the thread.
    pub(crate) fn visible_turn_id(&self, turn: &TurnRow) -> TurnId {
        if turn.is_shared {
            ForkIds(self.id).turn(turn.view.id)
        } else {
            turn.view.id
        }
    }

    /// Returns the recorded IDs that a visible turn ID may have.
    pub(crate) fn candidate_turn_ids(&self, name: &str) -> impl Iterator<Item = TurnId> + use<> {
        let name = ids::parse_turn(name);
        let shared = name.map(|name| ForkIds(self.id).turn(name));
        let shared = shared.filter(|_| self.row.origin.is_some());
        name.into_iter().chain(shared)
    }
}

impl Service {
    /// Finds a turn by its visible ID, even if its records were pruned.
    pub(crate) async fn find_turn(&self, found: &FoundThread, name: &str) -> Result<TurnRow> {
        for id in found.candidate_turn_ids(name) {
            let turn = self.queries.turn(&found.row.stream, id).await?;
            let has_name = |turn: &TurnRow| found.visible_turn_id(turn).to_string() == name;
            if let Some(turn) = turn.filter(has_name) {
                return Ok(turn);
            }
        }
        Err(ApiError::turn_not_found())
    }

    /// Returns whether retention has removed turns of a thread. The oldest are removed first.
    pub(crate) async fn has_pruned_turns(&self, found: &FoundThread) -> Result<bool> {
        let oldest = self.first_turn(&found.row.stream, Order::OldestFirst);
        Ok(oldest.await?.is_some_and(|turn| turn.is_pruned))
    }

    /// Finds the newest stored turn of a thread that matches; reads few older ones.
    pub(crate) async fn newest_turn_where(
        &self,
        found: &FoundThread,
        mut matches: impl FnMut(&TurnRow) -> bool,
    ) -> Result<Option<TurnRow>> {
        let mut query = TurnQuery {
            stream: found.row.stream.clone(),
            order: Order::NewestFirst,
            upto: None,
            after: None,
            limit: PAGE,
        };
        loop {
            let page = self.queries.turns(query.clone()).await?;
            let mut turns = page.entries.into_iter().filter(|turn| !turn.is_pruned);
            if let Some(turn) = turns.find(&mut matches) {
                return Ok(Some(turn));
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(None);
            }
        }
    }
}
