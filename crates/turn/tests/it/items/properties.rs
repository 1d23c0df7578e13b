//! Items start once, end once and belong to their turn. A single event contains as much as the fold of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::items::{
    Change, Item, ItemKind, ItemStep, TurnLog, TurnView, WaitChange, change,
};
use windlass_core::typed_id::{ItemId, TurnId};

use super::player::play;

/// What people have seen, event by event.
#[derive(Default)]
struct Watcher {
    log: TurnLog,
    turns: BTreeSet<TurnId>,
    open: BTreeMap<ItemId, TurnId>,
    ended: BTreeSet<ItemId>,
    order: BTreeMap<TurnId, Vec<ItemId>>,
    waits: BTreeMap<ItemId, TurnId>,
}

impl Watcher {
    fn look(&mut self, event: &Arc<Event>) {
        self.log.apply(event);
        match change(event) {
            Some(Change::TurnStarted(turn)) => {
                assert!(self.turns.insert(turn.id), "a turn starts twice");
                assert_eq!(
                    turn.outline.item_ids.len(),
                    1,
                    "the input is the first item"
                );
            }
            Some(Change::TurnEnded(turn)) => self.end_turn(&turn),
            Some(Change::TurnSteered { turn_id, input, .. }) => {
                assert!(self.turns.contains(&turn_id));
                assert_eq!(input, Some("hello"));
            }
            Some(Change::Item(step)) => self.item(step),
            Some(Change::Wait(wait)) => self.wait(&wait),
            Some(_) | None => {}
        }
    }

    fn item(&mut self, step: ItemStep<'_>) {
        match step {
            ItemStep::Started(item) => {
                self.show(&item);
                assert!(self.open.insert(item.id, item.turn_id).is_none());
            }
            ItemStep::Delta { item_id, .. } => {
                assert!(self.open.contains_key(&item_id), "a delta of no open item");
            }
            ItemStep::Ended(item) => {
                if self.open.remove(&item.id).is_none() {
                    self.show(&item);
                    assert_ne!(item.kind, ItemKind::ToolCall, "a call ends without a start");
                }
                assert!(self.ended.insert(item.id), "{} ends twice", item.id);
                let folded = self.log.item(item.id);
                assert_eq!(Some(item), folded, "the end does not tell all of the item");
                assert!(!item.detail().contains("secret"), "an answer is shown");
            }
        }
    }

    fn show(&mut self, item: &Item<'_>) {
        assert!(self.turns.contains(&item.turn_id), "an item of no turn");
        assert!(
            !self.ended.contains(&item.id),
            "an item starts after its end"
        );
        self.order.entry(item.turn_id).or_default().push(item.id);
    }

    fn wait(&mut self, change: &WaitChange<'_>) {
        assert!(self.open.contains_key(&change.item_id), "a wait of no item");
        match change.wait.opens() {
            Some(_) => {
                self.waits.insert(change.item_id, change.turn_id);
            }
            None => {
                self.waits.remove(&change.item_id);
            }
        }
        let waiting = self.log.open_waits().map(|wait| wait.item_id);
        assert_eq!(
            waiting.collect::<BTreeSet<_>>(),
            self.waits.keys().copied().collect()
        );
    }

    fn end_turn(&mut self, ended: &TurnView) {
        assert!(self.turns.remove(&ended.id), "a turn ends that is not open");
        assert!(
            !self.open.values().any(|turn| *turn == ended.id),
            "open items"
        );
        assert!(
            !self.waits.values().any(|turn| *turn == ended.id),
            "open waits"
        );
        assert_eq!(
            self.order[&ended.id], ended.outline.item_ids,
            "order of items"
        );
        let folded = self.log.turn(ended.id);
        let expected = TurnView {
            input_message_id: folded.and_then(|turn| turn.input_message_id),
            ..ended.clone()
        };
        assert_eq!(Some(&expected), folded, "the end record is incomplete");
        assert_eq!(
            self.log.items_of(ended.id).count(),
            ended.outline.item_ids.len()
        );
    }
}

/// Folds without the records that end turns, so that nothing is taken over from them.
fn counted(events: &[Arc<Event>]) -> TurnLog {
    TurnLog::fold(events.iter().filter(|event| !event.data.ends_turn()))
}

fn shown(log: &TurnLog) -> (Vec<TurnView>, Vec<String>) {
    let items = log.turns().iter().flat_map(|turn| log.items_of(turn.id));
    (
        log.turns().to_vec(),
        items.map(|item| format!("{item:?}")).collect(),
    )
}

const SEEDS: u64 = 800;

#[test]
fn items_start_once_and_end_once_within_their_turn() {
    for seed in 0..SEEDS {
        let mut watcher = Watcher::default();
        let events = play(seed);
        events.iter().for_each(|event| watcher.look(event));
        assert!(watcher.turns.is_empty() && watcher.open.is_empty());
        assert_eq!(watcher.log.open_items().count(), 0);
        assert_eq!(shown(&watcher.log), shown(&TurnLog::fold(&events)));
    }
}

#[test]
fn end_of_a_turn_has_its_counters() {
    for seed in 0..SEEDS {
        let events = play(seed);
        let (log, counted) = (TurnLog::fold(&events), counted(&events));
        for (turn, counted) in log.turns().iter().zip(counted.turns()) {
            assert_eq!(turn.outline, counted.outline);
            assert_eq!(turn.usage, counted.usage);
            assert_eq!(turn.final_message_id, counted.final_message_id);
            assert_eq!(
                (turn.iterations, turn.llm_call_count, turn.tool_call_count),
                (
                    counted.iterations,
                    counted.llm_call_count,
                    counted.tool_call_count
                )
            );
        }
    }
}

#[test]
fn stored_journal_folds_to_the_same_state() {
    for seed in 0..SEEDS / 4 {
        let events = play(seed);
        let prefix = &events[..events.len() - events.len() / 3];
        let stored = prefix.iter().map(|event| {
            let json = serde_json::to_string(event.as_ref()).unwrap();
            Arc::new(serde_json::from_str(&json).unwrap())
        });
        let stored: Vec<_> = stored.collect();
        assert_eq!(
            shown(&TurnLog::fold(prefix)),
            shown(&TurnLog::fold(&stored))
        );
    }
}

#[test]
fn scenarios_reach_every_kind_of_end() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let log = TurnLog::fold(&play(seed));
        for turn in log.turns() {
            seen.insert(format!("{:?}", turn.status));
            let items = log.items_of(turn.id);
            seen.extend(items.map(|item| format!("{:?} {:?}", item.kind, item.status)));
        }
    }
    let expected = [
        "AgentMessage Completed",
        "AgentMessage Failed",
        "AgentMessage Interrupted",
        "AgentReasoning Completed",
        "AgentReasoning Interrupted",
        "Completed",
        "ContextCompaction Completed",
        "ContextCompaction Failed",
        "ContextCompaction Interrupted",
        "Error Failed",
        "Failed",
        "Interrupted",
        "Status Completed",
        "ToolCall Completed",
        "ToolCall Failed",
        "ToolCall Interrupted",
        "UserMessage Completed",
    ];
    assert!(seen.iter().eq(expected.iter()), "{seen:?}");
}
