//! The turns that a thread shows, those that a fork shares with its parent under names of its own.

use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::{Item, Turn};
use windlass_store::queries::{Order, TurnDetail, TurnQuery, TurnRow};

use super::FoundThread;
use crate::error::{ApiError, Result};
use crate::ids::{self, Renamed};
use crate::service::Service;
use crate::view;

/// How many turns are looked at together in search of one.
const PAGE: usize = 64;

/// One turn with its items, as the thread shows it.
pub(crate) fn told(id: SessionId, TurnDetail { row, log, .. }: &TurnDetail) -> (Turn, Vec<Item>) {
    let items = log.items_of(row.view.id);
    let mut items: Vec<Item> = items.map(|item| view::item(&item)).collect();
    let mut turn = view::turn(&row.view);
    if row.is_shared {
        view::rename(&mut turn, &mut items, id);
    }
    (turn, items)
}

impl FoundThread {
    /// Returns the number of the newest record that a fork shares with its parent.
    pub(crate) fn shared(&self) -> u64 {
        self.row.origin.map_or(0, |origin| origin.sequence)
    }

    /// Returns the id of a turn as the thread shows it.
    pub(crate) fn name_of(&self, turn: &TurnRow) -> TurnId {
        match turn.is_shared {
            true => Renamed(self.id).turn(turn.view.id),
            false => turn.view.id,
        }
    }

    /// Returns the ids under which a turn may be recorded that the thread shows under a name.
    pub(crate) fn recorded(&self, name: &str) -> impl Iterator<Item = TurnId> + use<> {
        let name = ids::parse_turn(name);
        let shared = name.map(|name| Renamed(self.id).turn(name));
        let shared = shared.filter(|_| self.row.origin.is_some());
        name.into_iter().chain(shared)
    }
}

impl Service {
    /// Finds a turn by the id under which the thread shows it, also where its records are no longer kept.
    pub(crate) async fn turn_named(&self, found: &FoundThread, name: &str) -> Result<TurnRow> {
        for id in found.recorded(name) {
            let turn = self.queries.turn(&found.row.stream, id).await?;
            let is_it = |turn: &TurnRow| found.name_of(turn).to_string() == name;
            if let Some(turn) = turn.filter(is_it) {
                return Ok(turn);
            }
        }
        Err(ApiError::turn_not_found())
    }

    /// Tells whether retention has removed turns of a thread. The oldest go first.
    pub(crate) async fn has_pruned_turns(&self, found: &FoundThread) -> Result<bool> {
        let oldest = TurnQuery {
            stream: found.row.stream.clone(),
            order: Order::OldestFirst,
            after: None,
            limit: 1,
        };
        let oldest = self.queries.turns(oldest).await?;
        Ok(oldest.entries.first().is_some_and(|turn| turn.is_pruned))
    }

    /// Finds the newest turn of a thread that fits and is still kept, and looks at few that are older.
    pub(crate) async fn turn_back(
        &self,
        found: &FoundThread,
        mut fits: impl FnMut(&TurnRow) -> bool,
    ) -> Result<Option<TurnRow>> {
        let mut query = TurnQuery {
            stream: found.row.stream.clone(),
            order: Order::NewestFirst,
            after: None,
            limit: PAGE,
        };
        loop {
            let page = self.queries.turns(query.clone()).await?;
            let mut turns = page.entries.into_iter().filter(|turn| !turn.is_pruned);
            if let Some(turn) = turns.find(&mut fits) {
                return Ok(Some(turn));
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(None);
            }
        }
    }
}
