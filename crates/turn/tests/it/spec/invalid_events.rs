//! Events that do not follow from those before them.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;
use windlass_core::events::{Event, EventContext, EventData, OutputMessageReplacedData};
use windlass_core::message::Message;
use windlass_core::typed_id::SessionId;
use windlass_turn::Thread;

use crate::items::player::play;
use crate::world::ThreadAction::*;
use crate::world::{ThreadAction, World, plan};

/// Gives an event the number that comes next.
fn next(thread: &Thread, event: &Event) -> Event {
    Event {
        sequence: Some(thread.head() + 1),
        ..event.clone()
    }
}

#[track_caller]
fn refuses(thread: &Thread, event: &Event, why: &str) {
    let mut after = thread.clone();
    let Err(invalid) = after.evolve(event) else {
        panic!("a {} fits", event.event_type)
    };
    let found = (invalid.seq, invalid.event_type, invalid.why);
    assert_eq!(found, (event.seq(), event.data.event_type(), why));
    assert_eq!(after, *thread, "it changes nothing");
}

/// Says why the newest event of a type cannot come once more.
#[track_caller]
fn not_again(given: &[ThreadAction], kind: &str, why: &str) {
    let world = World::after(plan(), given);
    let mut newest_first = world.events.iter().rev();
    let event = newest_first.find(|event| event.event_type == kind);
    let event = event.unwrap_or_else(|| panic!("no {kind} after {given:?}"));
    refuses(&world.thread, &next(&world.thread, event), why);
}

const CALL_ASK: ThreadAction = Model("", &[("a", "ask")]);
const CALL_CLIENT: ThreadAction = Model("", &[("a", "client")]);
const CALL_ONCE: ThreadAction = Model("", &[("a", "once")]);

#[test]
fn repeated_event_is_invalid() {
    let begun = [Say("x"), Say("y"), Model("a", &[]), Begin];
    not_again(&begun, "input.queued", "its turn is known already");
    let (no_turn, runs) = ("no such turn is running", "a turn is running");
    let (open, model) = (
        "a step of the turn is still open",
        "no such model call is running",
    );
    let (call, waits) = (
        "no such tool call is open",
        "the call does not wait for this",
    );
    let said = || vec![Say("x")];
    let answered = || vec![Say("x"), Model("y", &[])];
    let table: Vec<(Vec<ThreadAction>, &str, &str)> = vec![
        (said(), "turn.started", runs),
        (said(), "input.message", "the message is there already"),
        (said(), "reason.started", open),
        (answered(), "turn.completed", no_turn),
        (answered(), "session.activated", no_turn),
        (answered(), "output.message.completed", no_turn),
        (answered(), "reason.completed", no_turn),
        (answered(), "llm.generation", no_turn),
        (vec![Say("x"), Interrupt], "turn.cancelled", no_turn),
        (
            vec![Say("x"), Interrupt],
            "turn.interrupt_requested",
            no_turn,
        ),
        (vec![Say("x"), ModelFails], "turn.failed", no_turn),
        (
            vec![Say("x"), Steer("y"), Interrupt],
            "turn.steered",
            no_turn,
        ),
        (vec![Say("x"), Release, Interrupt], "turn.released", no_turn),
        (
            vec![Say("x"), Crash],
            "turn.resumed",
            "it is not the next attempt",
        ),
        (
            vec![Say("x"), Say("y")],
            "input.queued",
            "its turn is known already",
        ),
        (
            vec![Say("x"), Say("y"), EditQueued(0, "z"), RemoveQueued(0)],
            "input.edited",
            "no such input is queued",
        ),
        (
            vec![
                Say("x"),
                Say("y"),
                Say("z"),
                MoveQueued(0, 1),
                RemoveQueued(0),
            ],
            "input.edited",
            "the queue has no such position",
        ),
        (
            vec![Say("x"), Streams("y"), Crash],
            "output.message.delta",
            model,
        ),
        (
            vec![Say("x"), Thinks("y"), Crash],
            "reason.thinking.started",
            model,
        ),
        (vec![Say("x"), CALL_ONCE], "reason.completed", model),
        (vec![Say("x"), CALL_ONCE], "llm.generation", model),
        (vec![Say("x"), CALL_ONCE], "output.message.completed", model),
        (vec![Say("x"), CALL_ONCE], "reason.started", open),
        (vec![Say("x"), CALL_ONCE], "tool.started", waits),
        (vec![Say("x"), CALL_ONCE, Done("a")], "tool.started", call),
        (vec![Say("x"), CALL_ONCE, Done("a")], "tool.completed", call),
        (vec![Say("x"), CALL_ONCE, Done("a")], "act.started", call),
        (
            vec![Say("x"), CALL_ONCE, Emit("a"), Done("a")],
            "tool.completed",
            call,
        ),
        (vec![Say("x"), CALL_ASK], "approval.required", waits),
        (
            vec![Say("x"), CALL_ASK, Allow("a")],
            "approval.decided",
            waits,
        ),
        (vec![Say("x"), CALL_CLIENT], "tool.call_requested", waits),
        (
            vec![
                Say("x"),
                Model("", &[("a", "client"), ("b", "client")]),
                Results(&[("a", 1)]),
            ],
            "tool.call_resolved",
            call,
        ),
        (
            vec![
                Say("x"),
                Model("", &[("a", "once"), ("b", "once")]),
                Asks("a"),
                Replies("a", "y"),
            ],
            "user_input.answered",
            call,
        ),
        (
            vec![Say("x"), CALL_ONCE, Asks("a")],
            "user_input.required",
            waits,
        ),
        (
            vec![Say("x"), Model("y", &[]), Compact],
            "context.compacting",
            open,
        ),
        (
            vec![Say("x"), Model("y", &[]), Compact, Model("s", &[])],
            "context.compacted",
            no_turn,
        ),
        (
            vec![ImportAgent("", &[("a", "once")]), Say("x"), Interrupt],
            "transcript.repaired",
            "the call has its result, or never was",
        ),
    ];
    for (given, kind, why) in table {
        not_again(&given, kind, why);
    }
}

/// Says why the newest event of a type in one journal cannot come in another.
#[track_caller]
fn not_there(from: &[ThreadAction], kind: &str, given: &[ThreadAction], why: &str) {
    let (from, to) = (World::after(plan(), from), World::after(plan(), given));
    let event = from.events.iter().rfind(|event| event.event_type == kind);
    let turn_id = to.thread.turn().map(|turn| turn.id);
    let event = event.unwrap_or_else(|| panic!("there is no {kind}"));
    let mut event = next(&to.thread, event);
    event.context.turn_id = turn_id.or(event.context.turn_id);
    if let (EventData::TurnCompleted(data), Some(turn_id)) = (&mut event.data, turn_id) {
        data.turn_id = turn_id;
    }
    refuses(&to.thread, &event, why);
}

#[test]
fn end_without_a_beginning_is_invalid() {
    let open = "a step of the turn is still open";
    let waits = "the call does not wait for this";
    let answered = &[Say("x"), Model("y", &[])];
    let called = &[Say("x"), CALL_ONCE];
    let done = &[Say("x"), CALL_ONCE, Done("a")];
    not_there(answered, "turn.completed", &[Say("x")], open);
    not_there(answered, "turn.completed", called, open);
    not_there(answered, "turn.completed", &[Say("x"), CALL_CLIENT], open);
    not_there(
        done,
        "tool.completed",
        &[Say("x")],
        "no such tool call is open",
    );
    not_there(
        done,
        "tool.completed",
        &[Say("x"), CALL_ASK],
        "the call was not approved",
    );
    not_there(
        &[Say("x"), CALL_ASK, Allow("a")],
        "approval.decided",
        called,
        waits,
    );
    not_there(
        &[Say("x"), CALL_CLIENT, Results(&[("a", 1)])],
        "tool.call_resolved",
        called,
        waits,
    );
    not_there(answered, "session.idled", called, "a turn is running");
    not_there(
        &[Say("x"), Model("y", &[]), Rewind(0)],
        "session.rewound",
        called,
        "a turn is running",
    );
    not_there(
        &[Say("x"), Model("y", &[]), Rewind(0)],
        "session.rewound",
        &[Say("x"), Say("z"), Model("y", &[])],
        "a turn is running",
    );
    // Two calls of one class: the second one waits for the first.
    let serial = Model("", &[("a", "serial"), ("b", "serial")]);
    let both = &[Say("x"), serial, Done("a"), Done("b")];
    not_there(
        both,
        "tool.completed",
        &[Say("x"), serial],
        "the call never began",
    );
    not_there(
        &[Say("x"), Model("y", &[]), Compact, Model("s", &[])],
        "context.compacted",
        called,
        "the history is not being made shorter",
    );
}

#[test]
fn invalid_event_has_its_seq_and_type() {
    let world = World::after(plan(), &[Say("x")]);
    let newest = world.events.last().unwrap();
    refuses(&world.thread, newest, "its number is not a later one");
    let message = Message::assistant("another");
    let data = OutputMessageReplacedData {
        message,
        reason: None,
    };
    let replaced = Event {
        event_type: "output.message.replaced".to_owned(),
        context: EventContext::default(),
        data: data.into(),
        ..next(&world.thread, newest)
    };
    refuses(&world.thread, &replaced, "this version replaces no answers");
}

/// These events may repeat: they only affect the display, or each adds to the state.
const REPEATABLE: &[&str] = &[
    "act.completed",
    "act.started",
    "approval.timeout",
    "backend.notice",
    "llm.generation",
    "output.message.delta",
    "output.message.started",
    "reason.thinking.completed",
    "reason.thinking.delta",
    "reason.thinking.started",
    "session.activated",
    "session.idled",
    "tool.call_canceled",
    "tool.call_timeout",
    "tool.output.delta",
    "turn.interrupt_requested",
    "turn.steered",
    "user_input.canceled",
];

#[test]
fn duplicate_beginning_or_end_is_invalid() {
    let mut repeated = BTreeSet::new();
    for seed in 0..200 {
        let mut thread = Thread::new(SessionId::from_seed(1));
        for event in play(seed) {
            thread.evolve(&event).unwrap();
            if thread.clone().evolve(&next(&thread, &event)).is_ok() {
                repeated.insert(event.event_type.clone());
            }
        }
    }
    let repeated: Vec<&str> = repeated.iter().map(String::as_str).collect();
    assert_eq!(repeated, REPEATABLE);
}

/// Returns how many events retention may take out: all before the oldest turn that is open or waits, and never the newest.
fn prunable(events: &[Arc<Event>], whole: &Thread) -> usize {
    let running = whole.turn().map(|turn| turn.id);
    let open: Vec<_> = whole
        .queue()
        .iter()
        .map(|next| next.turn_id)
        .chain(running)
        .collect();
    let is_open = |event: &Arc<Event>| event.context.turn_id.is_some_and(|id| open.contains(&id));
    let first = events.iter().position(is_open);
    first.unwrap_or(events.len().saturating_sub(1))
}

/// Returns the messages of turns that have lost their beginning: calls without results, or results without calls.
fn torn_messages(events: &[Arc<Event>]) -> BTreeSet<Uuid> {
    let begun: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.data, EventData::TurnStarted(_)))
        .map(|event| event.context.turn_id)
        .collect();
    let torn = events
        .iter()
        .filter(|event| event.context.turn_id.is_some() && !begun.contains(&event.context.turn_id));
    torn.map(|event| event.id.uuid()).collect()
}

#[test]
fn pruned_journal_is_valid() {
    for seed in 0..200 {
        let events: Vec<Arc<Event>> = play(seed).into_iter().collect();
        let id = SessionId::from_seed(1);
        let whole = Thread::fold(id, events.iter().map(AsRef::as_ref)).unwrap();
        for cut in 1..=prunable(&events, &whole) {
            let left = Thread::fold(id, events[cut..].iter().map(AsRef::as_ref));
            let left = left.unwrap_or_else(|invalid| panic!("seed {seed}, cut {cut}: {invalid}"));
            assert_eq!(left.head(), whole.head(), "seed {seed}, cut {cut}");
            let turn = |thread: &Thread| thread.turn().map(|turn| turn.id);
            assert_eq!(turn(&left), turn(&whole), "seed {seed}, cut {cut}");
            assert_eq!(left.queue(), whole.queue(), "seed {seed}, cut {cut}");
            assert_eq!(left.pending_commands(), whole.pending_commands());
            let said = left.history().iter().map(|message| message.id.uuid());
            let torn = torn_messages(&events[cut..]);
            let torn: Vec<_> = said.filter(|id| torn.contains(id)).collect();
            assert!(torn.is_empty(), "seed {seed}, cut {cut}: {torn:?}");
        }
    }
}

#[test]
fn import_after_a_pruned_turn_is_retained() {
    let world = World::after(plan(), &[Say("x"), Model("y", &[]), ImportUser("z")]);
    let left = world.events[2..].iter().map(AsRef::as_ref);
    let left = Thread::fold(world.thread.session_id(), left).unwrap();
    let said: Vec<_> = left.history().iter().map(|said| said.text()).collect();
    assert_eq!(said, [Some("z")]);
}

#[test]
fn model_calls_are_counted_one_by_one() {
    let world = World::after(plan(), &[Say("x"), CALL_ONCE, Done("a")]);
    let before = Thread::fold(
        world.thread.session_id(),
        world.events[..world.events.len() - 1]
            .iter()
            .map(AsRef::as_ref),
    );
    let mut second = Event::clone(world.events.last().unwrap());
    let EventData::ReasonStarted(data) = &mut second.data else {
        panic!("another event")
    };
    data.iteration = 7;
    refuses(&before.unwrap(), &second, "it is not the next model call");
}
