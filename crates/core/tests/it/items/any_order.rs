//! The fold is total: any events in any order give turns whose items belong to them, each once.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use windlass_core::events::*;
use windlass_core::items::TurnLog;

use super::journal::{
    CALL, INPUT, Journal, MODEL, STEER, TURN, answered, call, cancelled, completed, tool_done,
};

/// One event of nearly every kind.
fn pool() -> Vec<Arc<Event>> {
    let mut journal = Journal::begun();
    journal.text_starts();
    journal.text("hel");
    journal.step(MODEL, answered("hello"));
    journal.step(MODEL, ReasonThinkingStartedData {});
    let delta = "h".to_owned();
    journal.step(
        MODEL,
        ReasonThinkingDeltaData {
            turn_id: TURN,
            delta,
        },
    );
    journal.tool_starts(None);
    let (tool_call, digest) = (call(), String::new());
    let required = ApprovalRequiredData {
        tool_call,
        digest,
        display_name: None,
        expires_at: None,
        request_id: None,
    };
    journal.step(CALL, required);
    journal.step(CALL, tool_done(ToolStatus::Success));
    journal.input(STEER, "more");
    journal.turn(completed());
    journal.turn(cancelled(TURN));
    let activated = SessionActivatedData {
        input_message_id: INPUT,
        input_text: None,
    };
    journal.add(EventContext::default(), activated);
    journal.events
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_folds(order in vec(any::<prop::sample::Index>(), 0..60)) {
        let pool = pool();
        let events: Vec<_> = order.iter().map(|index| Arc::clone(index.get(&pool))).collect();
        let log = TurnLog::fold(&events);
        let mut seen = HashSet::new();
        for turn in log.turns() {
            let items: Vec<_> = log.items_of(turn.id).collect();
            let same = log.item(items.first().map_or(STEER.uuid().into(), |item| item.id));
            prop_assert_eq!(same.is_some(), !items.is_empty());
            for item in items {
                prop_assert!(seen.insert(item.id));
                prop_assert_eq!(item.turn_id, turn.id);
                prop_assert_eq!(item.is_ended(), item.ended_at.is_some());
                let _ = (item.detail(), item.summary());
            }
        }
        prop_assert!(log.open_items().all(|item| seen.contains(&item.id) && !item.is_ended()));
    }
}
