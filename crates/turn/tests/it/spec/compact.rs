//! Making the history shorter for the model.

use windlass_core::events::EventData;
use windlass_turn::Thread;

use crate::world::ThreadAction::{
    Compact, Crash, Interrupt, Model, ModelFails, ModelUsing, Rewind, Say, Steer,
};
use crate::world::{ThreadAction, World, check, plan};

const ONE: &[ThreadAction] = &[Say("hi"), Model("hello", &[])];
const SUMMARY: &str =
    "user This is a summary of the conversation so far, which it replaces:\n\nthey met";

fn after(given: &[ThreadAction]) -> Vec<ThreadAction> {
    [ONE, given].concat()
}

#[test]
fn compaction_is_a_turn_of_one_step() {
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
fn model_reads_the_summary_and_users_read_everything() {
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

    // The second summary replaces the first one and the messages after it.
    let given = [&given[..], &[Compact, Model("they met", &[])]].concat();
    let world = World::after(plan(), &given);
    assert_eq!(world.context(), [SUMMARY]);
    let EventData::ContextCompacted(data) = world.last("context.compacted") else {
        panic!("another event")
    };
    assert_eq!((data.messages_before, data.messages_after), (3, 1));
}

#[test]
fn unfinished_compaction_changes_nothing() {
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
fn compaction_resumes_after_a_crash() {
    let given = after(&[Compact, Crash]);
    let world = World::after(plan(), &given);
    assert_eq!(world.pending(), ["=> summarise"]);
    assert_eq!(world.count("turn.resumed"), 1);
    let given = after(&[Compact, Crash, Model("they met", &[])]);
    assert_eq!(World::after(plan(), &given).context(), [SUMMARY]);
}

#[test]
fn compaction_excludes_turns_and_preserves_new_input() {
    check(plan(), &[Say("hi")], Compact, &["! busy"]);
    let parked = &[Say("hi"), Model("", &[("a", "client")])];
    check(plan(), parked, Compact, &["! waiting for results of a"]);
    check(plan(), &after(&[Compact]), Compact, &["! busy"]);
    let given = after(&[Compact, Steer("one more thing"), Model("they met", &[])]);
    let world = World::after(plan(), &given);
    assert_eq!(world.context(), [SUMMARY, "user one more thing"]);
}

#[test]
fn empty_history_is_not_compacted() {
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
fn usage_of_a_summary_is_counted() {
    let given = [Say("hi"), ModelUsing(&[], 5), Compact, ModelUsing(&[], 7)];
    let world = World::after(plan(), &given);
    let EventData::TurnCompleted(end) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!(end.usage.map(|usage| usage.output_tokens), Some(7));
    let all = world.thread.usage().map(|usage| usage.output_tokens);
    assert_eq!(all, Some(12));
}

mod automatic {
    //! Automatic compaction, because the next model call would not fit.

    use windlass_core::events::TokenUsage;
    use windlass_turn::{CompactionPlan, Input, TurnPlan};

    use super::*;
    use crate::world::ThreadAction::{Done, ModelRead};

    const WORK: &str = "user This is a summary of the conversation so far, which it replaces. It covers the work on the \
        message that follows it, which must not be repeated:\n\nthey met";
    /// The provider counted more than there is room for.
    const FULL: u32 = 900;

    fn small(keep_recent_tokens: u64) -> TurnPlan {
        TurnPlan {
            compaction: Some(CompactionPlan {
                window_tokens: 1_000,
                reserve_tokens: 200,
                keep_recent_tokens,
                prompt_tokens: 10,
            }),
            ..plan()
        }
    }

    fn long(bytes: usize) -> &'static str {
        Box::leak("x".repeat(bytes).into_boxed_str())
    }

    fn compacted(world: &World) -> (usize, usize, Option<usize>, Option<bool>) {
        let EventData::ContextCompacted(data) = world.last("context.compacted") else {
            panic!("another event")
        };
        let (before, after) = (data.messages_before, data.messages_after);
        (before, after, data.kept_messages, data.auto)
    }

    fn failed_with(world: &World) -> String {
        let EventData::TurnFailed(data) = world.last("turn.failed") else {
            panic!("another event")
        };
        data.error_code.clone().unwrap_or_default()
    }

    #[test]
    fn off_is_off() {
        let given = [Say("hi"), ModelRead(&[], u32::MAX)];
        let started = [
            "turn.started",
            "input.message",
            "session.activated",
            "reason.started",
            "=> model",
        ];
        check(plan(), &given, Say(long(10_000_000)), &started);
    }

    #[test]
    fn fitting_history_is_not_compacted() {
        let given = [Say("hi"), ModelRead(&[], 750), Say("more")];
        let world = World::after(small(100), &given);
        assert_eq!(world.pending(), ["=> model"]);
        assert_eq!(world.count("context.compacting"), 0);
    }

    #[test]
    fn turn_that_does_not_fit_starts_with_a_summary() {
        let given = [Say("hi"), ModelRead(&[], FULL)];
        let begun = [
            "turn.started",
            "input.message",
            "session.activated",
            "context.compacting",
            "=> summarise",
        ];
        check(small(0), &given, Say("more"), &begun);
        let given = [&given[..], &[Say("more")]].concat();
        let then = [
            "llm.generation",
            "context.compacted",
            "reason.started",
            "=> model",
        ];
        check(small(0), &given, Model("they met", &[]), &then);

        let given = [&given[..], &[Model("they met", &[])]].concat();
        let world = World::after(small(0), &given);
        assert_eq!(world.context(), [SUMMARY, "user more"]);
        assert_eq!(compacted(&world), (3, 2, Some(1), Some(true)));
        let world = World::after(small(100), &given);
        assert_eq!(world.context(), [SUMMARY, "agent hello", "user more"]);
        let folded = Thread::fold(
            world.thread.session_id(),
            world.events.iter().map(|event| &**event),
        );
        assert_eq!(folded.as_ref(), Ok(&world.thread));
    }

    #[test]
    fn without_a_count_of_the_provider_the_words_are_counted() {
        let given = [Say(long(1_800)), Model("hello", &[]), Say(long(600))];
        let world = World::after(small(100), &given);
        assert_eq!(world.pending(), ["=> summarise"]);
        assert_eq!(world.thread.to_summarise(None).len(), 2);
    }

    #[test]
    fn in_the_middle_of_a_turn_its_input_and_the_newest_pair_stay_whole() {
        let given = [
            Say("hi"),
            Model("hello", &[]),
            Say("more"),
            ModelRead(&[("a", "pure"), ("b", "pure")], FULL),
            Done("b"),
            Done("a"),
        ];
        let world = World::after(small(0), &given);
        assert_eq!(world.pending(), ["=> summarise"]);
        let given = [&given[..], &[Model("they met", &[])]].concat();
        let world = World::after(small(0), &given);
        let pair = [
            "agent hello [a] [b]",
            "tool_result a: \"done\"",
            "tool_result b: \"done\"",
        ];
        let expected = [&[WORK, "user more"][..], &pair].concat();
        assert_eq!(world.context(), expected);
        assert_eq!(compacted(&world), (6, 5, Some(3), Some(true)));
        assert_eq!(world.pending(), ["=> model"]);

        // The next summary replaces the first one; the input remains verbatim.
        let given = [
            &given[..],
            &[ModelRead(&[("c", "pure")], FULL), Done("c")],
            &[Model("they met", &[])],
        ]
        .concat();
        let world = World::after(small(0), &given);
        let pair = ["agent hello [c]", "tool_result c: \"done\""];
        let expected = [&[WORK, "user more"][..], &pair].concat();
        assert_eq!(world.context(), expected);
        assert_eq!(world.transcript().len(), 8, "people read all");
    }

    #[test]
    fn rewind_restores_the_earlier_context() {
        let given = [
            Say("hi"),
            Model("hello", &[]),
            Say("more"),
            ModelRead(&[("a", "pure")], FULL),
            Done("a"),
            Model("they met", &[]),
            Model("done", &[]),
            Say("last"),
            Model("bye", &[]),
        ];
        let back = |turn| World::after(small(0), &[&given[..], &[Rewind(turn)]].concat());
        assert_eq!(back(0).context(), ["user hi", "agent hello"]);
        let read = [
            WORK,
            "user more",
            "agent hello [a]",
            "tool_result a: \"done\"",
            "agent done",
        ];
        assert_eq!(back(1).context(), read);
        let later = [&read[..], &["user last", "agent bye"]].concat();
        assert_eq!(back(2).context(), later);
    }

    #[test]
    fn too_long_summary_is_repeated_with_less_and_then_fails() {
        let given = [Say("hi"), ModelRead(&[], FULL), Say(long(900))];
        let too_long = long(9_000);
        let mut world = World::after(small(400), &given);
        assert_eq!(world.thread.to_summarise(None).len(), 1);
        let again = [
            "llm.generation",
            "context.compacted",
            "context.compacting",
            "=> summarise",
        ];
        assert_eq!(world.play(Model(too_long, &[])), again);
        assert_eq!(
            world.thread.to_summarise(None).len(),
            3,
            "fewer messages remain verbatim"
        );
        let failed = [
            "llm.generation",
            "context.compacted",
            "turn.failed",
            "session.idled",
        ];
        assert_eq!(world.play(Model(too_long, &[])), failed);
        assert_eq!(failed_with(&world), "context_full");

        let mut world = World::after(small(400), &given);
        world.play(Model(too_long, &[]));
        world.play(Model("they met", &[]));
        assert_eq!(world.context()[0], WORK);
        assert_eq!(world.context().len(), 2);
        assert_eq!(world.pending(), ["=> model"]);
    }

    #[test]
    fn turn_that_cannot_be_compacted_fails_with_advice() {
        let mut tight = small(100);
        if let Some(compaction) = &mut tight.compaction {
            compaction.prompt_tokens = 950;
        }
        let world = World::after(tight, &[Say("hi")]);
        assert_eq!(world.count("context.compacting"), 0, "nothing to summarise");
        assert_eq!(failed_with(&world), "context_full");
        let EventData::TurnFailed(data) = world.last("turn.failed") else {
            panic!("another event")
        };
        assert!(data.error.contains("larger window"), "{}", data.error);
    }

    #[test]
    fn input_of_an_earlier_turn_is_summarised() {
        // With its input the summary is too long, so the turn fails; the next one is about something else.
        let given = [Say("hi"), ModelRead(&[], FULL), Say(long(900))];
        let mut world = World::after(small(0), &given);
        world.play(Model(long(9_000), &[]));
        assert_eq!(failed_with(&world), "context_full");
        assert_eq!(world.context().len(), 2);
        let said = world.play(Say("more"));
        assert_eq!(said.last().map(String::as_str), Some("=> summarise"));
        world.play(Model("they met", &[]));
        assert_eq!(world.context().len(), 2);
        assert_eq!(world.context()[1], "user more");
        assert_eq!(world.pending(), ["=> model"]);
    }

    #[test]
    fn failed_compaction_is_retried_once() {
        let given = [Say("hi"), ModelRead(&[], 950), Say("more")];
        let again = [
            "llm.generation",
            "context.compacted",
            "context.compacting",
            "=> summarise",
        ];
        check(small(0), &given, ModelFails, &again);
        check(small(0), &given, Model(" ", &[]), &again);
        let given = [&given[..], &[ModelFails, ModelFails]].concat();
        let world = World::after(small(0), &given);
        assert_eq!(failed_with(&world), "context_full");
        assert_eq!(world.context(), world.transcript(), "all is as it was");
    }

    #[test]
    fn turn_continues_without_compaction_while_an_answer_fits() {
        let given = [
            Say("hi"),
            ModelRead(&[], 850),
            Say("more"),
            ModelFails,
            ModelFails,
        ];
        let world = World::after(small(0), &given);
        assert_eq!(world.pending(), ["=> model"]);
        let given = [&given[..], &[ModelRead(&[("a", "pure")], 850), Done("a")]].concat();
        let world = World::after(small(0), &given);
        assert_eq!(world.pending(), ["=> model"]);
        assert_eq!(world.count("context.compacting"), 2);
    }

    #[test]
    fn crash_interrupt_and_steer_during_compaction() {
        let given = [Say("hi"), ModelRead(&[], FULL), Say("more")];
        let world = World::after(small(0), &[&given[..], &[Crash]].concat());
        assert_eq!(world.pending(), ["=> summarise"]);
        let steered = [Crash, Steer("and this"), Model("they met", &[])];
        let world = World::after(small(0), &[&given[..], &steered].concat());
        assert_eq!(world.context(), [SUMMARY, "user more", "user and this"]);
        assert_eq!(world.pending(), ["=> model"]);

        let stopped = World::after(small(0), &[&given[..], &[Interrupt]].concat());
        assert_eq!(stopped.context(), stopped.transcript());
        assert_eq!(stopped.count("turn.cancelled"), 1);
        let EventData::ContextCompacted(data) = stopped.last("context.compacted") else {
            panic!("another event")
        };
        assert_eq!((data.interrupted, data.auto), (Some(true), Some(true)));
    }

    #[test]
    fn steered_input_counts_towards_the_window() {
        let given = [Say("hi"), Model("hello", &[]), Say("more")];
        let mut world = World::after(small(0), &given);
        world.play(Steer(long(1_500)));
        let said = world.play(ModelRead(&[], 700));
        assert_eq!(said.last().map(String::as_str), Some("=> summarise"));
    }

    #[test]
    fn oversized_message_is_truncated_only_in_the_request() {
        let given = [Say(long(100_000))];
        let world = World::after(small(0), &given);
        assert_eq!(world.pending(), ["=> model"]);
        assert_eq!(world.count("context.compacting"), 0);
        let plan = small(0);
        let sent = plan.compaction.unwrap().cut(world.thread.context());
        let sent = sent.last().and_then(|message| message.text()).unwrap();
        assert!(sent.len() < 3_000 && sent.contains("left out"), "{sent}");
        assert_eq!(world.transcript()[0].len(), "user ".len() + 100_000);
    }

    #[test]
    fn usage_of_a_summary_does_not_predict_the_next_request() {
        let mut world = World::after(small(0), &[Say("hi"), ModelRead(&[], FULL), Say("more")]);
        let exec_id = world.model();
        let answer = windlass_turn::Answer {
            text: "they met".to_owned(),
            metadata: windlass_core::events::LlmGenerationMetadata {
                usage: Some(TokenUsage {
                    input_tokens: 5_000,
                    ..TokenUsage::default()
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        let answer = Box::new(answer);
        let decision = world
            .decide(Input::ModelFinished { exec_id, answer })
            .unwrap();
        world.take(decision);
        assert_eq!(world.pending(), ["=> model"]);
    }
}
