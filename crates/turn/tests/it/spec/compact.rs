//! Making the history shorter for the model.

use windlass_core::events::EventData;
use windlass_turn::Thread;

use crate::world::Step::{
    Compact, Crash, Interrupt, Model, ModelFails, ModelUsing, Rewind, Say, Steer,
};
use crate::world::{Step, World, check, plan};

const ONE: &[Step] = &[Say("hi"), Model("hello", &[])];
const SUMMARY: &str =
    "user This is a summary of the conversation so far, which stands in its place:\n\nthey met";

fn after(given: &[Step]) -> Vec<Step> {
    [ONE, given].concat()
}

#[test]
fn a_compaction_is_a_turn_of_one_step() {
    check(
        plan(),
        ONE,
        Compact,
        &["turn.started", "context.compacting", "=> summarise"],
    );
    check(
        plan(),
        &after(&[Compact]),
        Model("they met", &[]),
        &[
            "llm.generation",
            "context.compacted",
            "turn.completed",
            "session.idled",
        ],
    );
}

#[test]
fn the_model_reads_the_summary_and_what_came_after_and_people_read_all() {
    let given = after(&[
        Compact,
        Model("they met", &[]),
        Say("more"),
        Model("yes", &[]),
    ]);
    let world = World::after(plan(), &given);
    assert_eq!(world.context(), [SUMMARY, "user more", "agent yes"]);
    let whole = ["user hi", "agent hello", "user more", "agent yes"];
    assert_eq!(world.transcript(), whole);
    let folded = Thread::fold(
        world.thread.session_id(),
        world.events.iter().map(|event| &**event),
    );
    assert_eq!(folded.as_ref(), Ok(&world.thread));
    let EventData::LlmGeneration(newest) = world.last("llm.generation") else {
        panic!("another event")
    };
    assert_eq!(newest.prompt.message_count, 2, "what was sent is named");

    // The second one stands for the first and for what came after it.
    let given = [&given[..], &[Compact, Model("they met", &[])]].concat();
    let world = World::after(plan(), &given);
    assert_eq!(world.context(), [SUMMARY]);
    let EventData::ContextCompacted(data) = world.last("context.compacted") else {
        panic!("another event")
    };
    assert_eq!((data.messages_before, data.messages_after), (3, 1));
}

#[test]
fn a_compaction_that_does_not_come_to_its_end_changes_nothing() {
    for (step, end) in [
        (Interrupt, "turn.cancelled"),
        (ModelFails, "turn.failed"),
        (Model(" ", &[]), "turn.failed"),
    ] {
        let world = World::after(plan(), &after(&[Compact, step]));
        assert_eq!(world.context(), world.transcript(), "{step:?}");
        assert_eq!(world.count("context.compacted"), 1, "{step:?}");
        assert_eq!(world.count(end), 1, "{step:?}");
        assert!(world.thread.turn().is_none());
        let EventData::ContextCompacted(data) = world.last("context.compacted") else {
            panic!("another event")
        };
        assert_eq!(data.summary, None);
    }
}

#[test]
fn a_compaction_goes_on_after_a_crash() {
    let given = after(&[Compact, Crash]);
    let world = World::after(plan(), &given);
    assert_eq!(world.pending(), ["=> summarise"]);
    assert_eq!(world.count("turn.resumed"), 1);
    let given = after(&[Compact, Crash, Model("they met", &[])]);
    assert_eq!(World::after(plan(), &given).context(), [SUMMARY]);
}

#[test]
fn nothing_is_compacted_beside_a_turn_and_what_is_said_meanwhile_stays() {
    check(plan(), &[Say("hi")], Compact, &["! busy"]);
    let parked = &[Say("hi"), Model("", &[("a", "client")])];
    check(plan(), parked, Compact, &["! waiting for results of a"]);
    check(plan(), &after(&[Compact]), Compact, &["! busy"]);
    let given = after(&[Compact, Steer("one more thing"), Model("they met", &[])]);
    let world = World::after(plan(), &given);
    assert_eq!(world.context(), [SUMMARY, "user one more thing"]);
}

#[test]
fn a_history_without_a_word_is_as_short_as_it_gets() {
    check(
        plan(),
        &[],
        Compact,
        &[
            "turn.started",
            "context.compacting",
            "context.compacted",
            "turn.completed",
            "session.idled",
        ],
    );
}

#[test]
fn going_back_before_a_compaction_undoes_it() {
    let given = after(&[
        Compact,
        Model("they met", &[]),
        Say("more"),
        Model("yes", &[]),
    ]);
    let back = |turn| World::after(plan(), &[&given[..], &[Rewind(turn)]].concat());
    assert_eq!(back(0).context(), ["user hi", "agent hello"]);
    assert_eq!(back(1).context(), [SUMMARY]);
    assert_eq!(back(2).context(), [SUMMARY, "user more", "agent yes"]);
}

#[test]
fn what_a_summary_cost_is_counted() {
    let given = [Say("hi"), ModelUsing(&[], 5), Compact, ModelUsing(&[], 7)];
    let world = World::after(plan(), &given);
    let EventData::TurnCompleted(end) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!(end.usage.map(|usage| usage.output_tokens), Some(7));
    let all = world.thread.usage().map(|usage| usage.output_tokens);
    assert_eq!(all, Some(12));
}
