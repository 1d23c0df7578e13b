//! The turns and items of a session, folded from its events.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::change::{Change, WaitChange, WaitKind, change, wait_change};
use super::item::{Item, ItemBody};
use super::step::{ItemStep, item_step};
use super::turn::TurnView;
use crate::events::Event;
use crate::typed_id::{ItemId, TurnId};

/// The turns and items of a session. Each event has the same cost, regardless of the session's length.
///
/// An item shares the events that began and ended it (`Arc`) and reads its content from them. No text is stored twice, and an item always matches its
/// events. Only streamed text is accumulated here; it is dropped when the complete text arrives.
#[derive(Debug, Clone, Default)]
pub struct TurnLog {
    turns: Vec<TurnView>,
    turn_indexes: HashMap<TurnId, usize>,
    items: Vec<ItemEntry>,
    item_indexes: HashMap<ItemId, usize>,
    open: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
struct ItemEntry {
    turn_id: TurnId,
    opened: Arc<Event>,
    closed: Option<Arc<Event>>,
    streamed: String,
    wait: Option<Arc<Event>>,
}

impl TurnLog {
    /// Folds events, oldest first.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> Self {
        let mut log = Self::default();
        events.into_iter().for_each(|event| log.apply(event));
        log
    }

    /// Applies one event. Never fails: an event that does not match the earlier ones changes nothing.
    pub fn apply(&mut self, event: &Arc<Event>) {
        if let Some(turn) = event.context.turn_id.and_then(|id| self.open_turn(id)) {
            turn.note(event);
        }
        match change(event) {
            Some(Change::TurnStarted(turn)) => {
                let index = self.turns.len();
                let known = *self.turn_indexes.entry(turn.id).or_insert(index);
                if known == index {
                    // Its items are added as they begin.
                    let mut turn = *turn;
                    turn.outline.item_ids.clear();
                    self.turns.push(turn);
                }
            }
            Some(Change::TurnEnded(ended)) => {
                if let Some(turn) = self.open_turn(ended.id) {
                    turn.end(event);
                }
            }
            Some(Change::Item(step)) => self.apply_step(event, step),
            Some(Change::Wait(wait)) => self.apply_wait(event, &wait),
            Some(
                Change::Session(_)
                | Change::InputQueued(_)
                | Change::InputEdited(_)
                | Change::InputRemoved { .. }
                | Change::TurnWorks { .. }
                | Change::TurnResumed { .. }
                | Change::TurnSteered { .. }
                | Change::OutputRejected { .. }
                | Change::InterruptRequested { .. },
            )
            | None => {}
        }
    }

    fn apply_step(&mut self, event: &Arc<Event>, step: ItemStep<'_>) {
        match step {
            ItemStep::Started(item) => {
                let index = self.add_item(event, &item);
                self.open.extend(index);
            }
            ItemStep::Delta { item_id, delta, .. } => {
                if let Some(entry) = self.open_entry(item_id)
                    && entry.streams()
                {
                    entry.streamed.push_str(delta);
                }
            }
            ItemStep::Ended(item) => match self.item_indexes.get(&item.id).copied() {
                None => {
                    self.add_item(event, &item);
                }
                Some(index) => {
                    if self.open.remove(&index)
                        && let Some(entry) = self.items.get_mut(index)
                    {
                        entry.closed = Some(Arc::clone(event));
                        entry.streamed = String::new();
                        if entry.wait.take().is_some() {
                            self.refresh_waits(item.turn_id);
                        }
                    }
                }
            },
        }
    }

    /// Adds an item to its turn; an item that is known, or whose turn is not open, is not added.
    fn add_item(&mut self, event: &Arc<Event>, item: &Item<'_>) -> Option<usize> {
        if self.item_indexes.contains_key(&item.id) {
            return None;
        }
        self.open_turn(item.turn_id)?.outline.item_ids.push(item.id);
        let index = self.items.len();
        self.item_indexes.insert(item.id, index);
        self.items.push(ItemEntry {
            turn_id: item.turn_id,
            opened: Arc::clone(event),
            closed: None,
            streamed: String::new(),
            wait: None,
        });
        Some(index)
    }

    fn apply_wait(&mut self, event: &Arc<Event>, change: &WaitChange<'_>) {
        let Some(entry) = self.open_entry(change.item_id) else {
            return;
        };
        entry.wait = change.wait.opens().map(|_| Arc::clone(event));
        let turn_id = entry.turn_id;
        self.refresh_waits(turn_id);
    }

    fn refresh_waits(&mut self, turn_id: TurnId) {
        let kinds: BTreeSet<WaitKind> = self
            .open_waits()
            .filter(|wait| wait.turn_id == turn_id)
            .filter_map(|wait| wait.wait.opens())
            .collect();
        if let Some(turn) = self.open_turn(turn_id) {
            turn.waiting_for = kinds.into_iter().collect();
        }
    }

    fn open_turn(&mut self, id: TurnId) -> Option<&mut TurnView> {
        let index = *self.turn_indexes.get(&id)?;
        self.turns.get_mut(index).filter(|turn| !turn.is_ended())
    }

    fn open_entry(&mut self, id: ItemId) -> Option<&mut ItemEntry> {
        let index = self.item_indexes.get(&id)?;
        self.items
            .get_mut(*index)
            .filter(|_| self.open.contains(index))
    }

    /// Returns the turns, oldest first.
    #[must_use]
    pub fn turns(&self) -> &[TurnView] {
        &self.turns
    }

    /// Finds a turn.
    #[must_use]
    pub fn turn(&self, id: TurnId) -> Option<&TurnView> {
        self.turns.get(*self.turn_indexes.get(&id)?)
    }

    /// Finds an item.
    #[must_use]
    pub fn item(&self, id: ItemId) -> Option<Item<'_>> {
        self.items.get(*self.item_indexes.get(&id)?)?.item()
    }

    /// Iterates over the items of a turn, in the order of their start.
    pub fn items_of(&self, turn_id: TurnId) -> impl Iterator<Item = Item<'_>> + '_ {
        let turn = self.turn(turn_id);
        let ids = turn.map_or(&[][..], |turn| &turn.outline.item_ids);
        ids.iter().filter_map(|id| self.item(*id))
    }

    /// Iterates over the items that have not ended.
    pub fn open_items(&self) -> impl Iterator<Item = Item<'_>> + '_ {
        self.open_entries().filter_map(ItemEntry::item)
    }

    /// Iterates over the open waits, each as shown by the event that started it.
    pub fn open_waits(&self) -> impl Iterator<Item = WaitChange<'_>> + '_ {
        self.open_entries()
            .filter_map(|entry| wait_change(entry.wait.as_ref()?))
    }

    fn open_entries(&self) -> impl Iterator<Item = &ItemEntry> + '_ {
        self.open.iter().filter_map(|index| self.items.get(*index))
    }
}

impl ItemEntry {
    fn item(&self) -> Option<Item<'_>> {
        let (ItemStep::Started(opened) | ItemStep::Ended(opened)) = item_step(&self.opened)? else {
            return None;
        };
        match self.closed.as_ref().and_then(|event| item_step(event)) {
            Some(ItemStep::Ended(closed)) => Some(closed.after(&opened)),
            _ if self.streamed.is_empty() => Some(opened),
            _ => Some(Item {
                body: ItemBody::Text(&self.streamed),
                ..opened
            }),
        }
    }

    /// The output of a call is not accumulated, because its result contains the relevant part.
    fn streams(&self) -> bool {
        matches!(
            item_step(&self.opened),
            Some(ItemStep::Started(Item {
                body: ItemBody::Empty,
                ..
            }))
        )
    }
}
