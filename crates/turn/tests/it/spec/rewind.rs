//! Going back to where a turn ended.

use windlass_turn::Thread;

use crate::world::ThreadAction::{
    Crash, Done, ImportAgent, ImportUser, Interrupt, Model, ModelUsing, Rewind, Say, Steer,
};
use crate::world::{World, check, plan, transcript};

const TWO: &[crate::world::ThreadAction] = &[
    Say("one"),
    Model("first", &[]),
    Say("two"),
    Model("", &[("a", "pure")]),
    Done("a"),
    Model("second", &[]),
];

fn after(given: &[crate::world::ThreadAction]) -> Vec<crate::world::ThreadAction> {
    [TWO, given].concat()
}

#[test]
fn rewind_truncates_the_conversation_to_the_turn() {
    check(plan(), TWO, Rewind(0), &["session.rewound"]);
    transcript(plan(), &after(&[Rewind(0)]), &["user one", "agent first"]);
    let given = &after(&[Rewind(0), Say("other"), Model("third", &[])]);
    let then = &["user one", "agent first", "user other", "agent third"];
    transcript(plan(), given, then);
    // To the newest turn: messages that the host added since are removed.
    let given = &after(&[
        ImportUser("x"),
        ImportAgent("", &[("b", "once")]),
        Rewind(1),
    ]);
    let world = World::after(plan(), given);
    assert_eq!(world.transcript(), World::after(plan(), TWO).transcript());
}

#[test]
fn dropped_turn_is_no_rewind_target() {
    check(plan(), &after(&[Rewind(0)]), Rewind(1), &["! unknown turn"]);
    check(
        plan(),
        &after(&[Rewind(0)]),
        Rewind(0),
        &["session.rewound"],
    );
    check(plan(), TWO, Rewind(7), &["! unknown turn"]);
}

#[test]
fn rewind_needs_an_idle_thread() {
    check(plan(), &after(&[Say("three")]), Rewind(0), &["! busy"]);
    let waiting = &after(&[Say("three"), Say("four"), Interrupt]);
    check(plan(), waiting, Rewind(0), &["! busy"]);
    check(plan(), &[Say("one")], Rewind(0), &["! busy"]);
}

#[test]
fn fold_equals_the_rewound_thread() {
    let ways: &[&[crate::world::ThreadAction]] = &[
        &[Rewind(0)],
        &[Rewind(1)],
        &[Rewind(0), Say("x"), Model("y", &[]), Rewind(2)],
        &[
            Rewind(0),
            Say("x"),
            Steer("more"),
            Interrupt,
            Rewind(2),
            Rewind(0),
        ],
        &[
            Rewind(1),
            Rewind(0),
            Say("x"),
            Crash,
            Model("y", &[]),
            Rewind(0),
        ],
        &[Say("x"), ModelUsing(&[], 9), Rewind(0), ImportUser("z")],
    ];
    for way in ways {
        let world = World::after(plan(), &after(way));
        let folded = Thread::fold(
            world.thread.session_id(),
            world.events.iter().map(AsRef::as_ref),
        );
        let folded = folded.unwrap();
        assert_eq!(folded, world.thread, "{way:?}");
        let numbers = world.events.iter().map(|event| event.seq());
        assert!(
            numbers.eq(1..=world.thread.head()),
            "a number is used twice"
        );
        for end in folded.ends() {
            let last = &world.events[usize::try_from(end.seq).unwrap() - 1];
            assert_eq!(last.event_type, "session.idled");
            assert_eq!(last.context.turn_id, Some(end.turn_id));
        }
    }
}

#[test]
fn rewind_does_not_reset_usage() {
    let given = &[
        Say("one"),
        Model("first", &[]),
        Say("two"),
        ModelUsing(&[], 9),
    ];
    let before = World::after(plan(), given).thread.usage();
    let given = &[given.as_slice(), &[Rewind(0)]].concat();
    assert_eq!(World::after(plan(), given).thread.usage(), before);
    assert_eq!(before.map(|usage| usage.output_tokens), Some(9));
}
