//! Forks and rewinds of conversations.

use windlass_core::error::AgentLoopError;
use windlass_core::events::EventData;
use windlass_core::session::SessionStatus;
use windlass_core::session_file::InitialFile;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_runtime::{
    ForkAt, ForkOptions, InProcessRuntime, RuntimeBackends, RuntimeHostAdapter,
};

use crate::support::{
    Fixture, Gate, ScriptedCall, Setup, SpyJournal, assert_sound, each_store, soon, types,
};

/// The texts of a conversation, in order.
async fn said(runtime: &InProcessRuntime, session: SessionId) -> Vec<String> {
    let messages = runtime.messages(session).await.unwrap();
    let texts = messages.iter().filter_map(|message| message.text());
    texts.map(str::to_owned).collect()
}

async fn fork(fixture: &Fixture, at: ForkAt) -> Result<SessionId, AgentLoopError> {
    let options = ForkOptions::new();
    soon(fixture.runtime.fork_session(fixture.session, at, options)).await
}

#[tokio::test]
async fn fork_at_a_turn_shares_the_history_until_then_and_is_independent() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let (runtime, parent) = (&fixture.runtime, fixture.session);
        let first = fixture.run("one").await;
        fixture.run("two").await;
        let before = fixture.events().await;

        let options = ForkOptions::new().title("another way");
        let at = ForkAt::Turn(first.turn_id);
        let loaded = runtime.loaded_sessions();
        let child = soon(runtime.fork_session(parent, at, options))
            .await
            .unwrap();
        assert_ne!(child, parent);
        assert_eq!(runtime.loaded_sessions(), loaded, "it is not read");
        assert_eq!(said(runtime, child).await, ["one", "ok"]);
        let record = runtime.session(child).await.unwrap();
        assert_eq!(
            (record.title.as_deref(), record.status),
            (Some("another way"), SessionStatus::Idle)
        );
        assert!(record.usage.is_some() && record.started_at.is_some());

        let events = runtime.events_for(child).await.unwrap();
        assert!(events.iter().all(|event| event.session_id == child));
        let newest = types(&events);
        assert_eq!(
            newest[newest.len() - 2..],
            ["session.idled", "session.forked"]
        );
        let Some(EventData::SessionForked(forked)) = events.last().map(|event| &event.data) else {
            panic!("{newest:?}")
        };
        assert_eq!(
            (forked.parent_session_id, forked.parent_sequence),
            (parent, events.len() as u64 - 1)
        );

        fixture.model.then(ScriptedCall::answer("another two"));
        let turn = soon(runtime.run_text_turn(child, "two?")).await.unwrap();
        assert!(turn.success);
        let call = fixture.model.calls() - 1;
        assert_eq!(
            fixture.model.sent(call),
            ["User: one", "Assistant: ok", "User: two?"]
        );
        assert_sound(&runtime.events_for(child).await.unwrap());
        assert_eq!(fixture.events().await, before);
        assert_eq!(said(runtime, parent).await, ["one", "ok", "two", "ok"]);

        // After its parent is removed, it can still run turns, be forked and be rewound.
        runtime.remove_session(parent).await.unwrap();
        let gone = runtime.session(parent).await;
        assert!(
            matches!(gone, Err(AgentLoopError::SessionNotFound(id)) if id == parent),
            "{gone:?}"
        );
        let all = ["one", "ok", "two?", "another two"];
        assert_eq!(said(runtime, child).await, all);
        let forking = runtime.fork_session(child, ForkAt::Latest, ForkOptions::new());
        let grandchild = soon(forking).await.unwrap();
        soon(runtime.rewind_session(child, first.turn_id))
            .await
            .unwrap();
        assert_eq!(said(runtime, child).await, all[..2]);
        assert_eq!(said(runtime, grandchild).await, all);
        runtime.remove_session(child).await.unwrap();
        fixture.model.then(ScriptedCall::answer("still"));
        soon(runtime.run_text_turn(grandchild, "three"))
            .await
            .unwrap();
        assert_eq!(said(runtime, grandchild).await[..4], all);
        assert_sound(&runtime.events_for(grandchild).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn fork_at_latest_has_the_whole_history_and_at_start_none() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        fixture.run("one").await;
        let latest = fork(&fixture, ForkAt::Latest).await.unwrap();
        assert_eq!(said(&fixture.runtime, latest).await, ["one", "ok"]);
        let start = fork(&fixture, ForkAt::Start).await.unwrap();
        assert!(said(&fixture.runtime, start).await.is_empty());
        let record = fixture.runtime.session(start).await.unwrap();
        assert_eq!(record.status, SessionStatus::Started);
        let events = fixture.runtime.events_for(start).await.unwrap();
        assert_eq!(types(&events), ["session.forked"]);
        let again = fixture
            .runtime
            .fork_session(latest, ForkAt::Latest, ForkOptions::new());
        let again = soon(again).await.unwrap();
        assert_eq!(said(&fixture.runtime, again).await, ["one", "ok"]);
    })
    .await;
}

#[tokio::test]
async fn fork_copies_files_and_values_but_no_secrets() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let (runtime, parent) = (&fixture.runtime, fixture.session);
        let (files, storage) = (runtime.file_store(), runtime.storage_store().unwrap());
        files
            .write_file(parent, "/a/b.txt", "text", "text")
            .await
            .unwrap();
        files.create_directory(parent, "/empty").await.unwrap();
        let fixed = InitialFile {
            path: "/fixed.bin".to_owned(),
            content: "AP8=".to_owned(),
            encoding: "base64".to_owned(),
            is_readonly: true,
        };
        files.seed_initial_file(parent, &fixed).await.unwrap();
        storage.set_value(parent, "key", "value").await.unwrap();
        storage.set_secret(parent, "token", "hidden").await.unwrap();

        let child = fork(&fixture, ForkAt::Start).await.unwrap();
        let text = runtime.read_file(child, "/a/b.txt").await.unwrap().unwrap();
        assert_eq!(
            (text.content.as_deref(), text.is_readonly),
            (Some("text"), false)
        );
        let binary = runtime
            .read_file(child, "/fixed.bin")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (binary.content.as_deref(), binary.is_readonly),
            (Some("AP8="), true)
        );
        assert!(
            files
                .stat_file(child, "/empty")
                .await
                .unwrap()
                .unwrap()
                .is_directory
        );
        let value = storage.get_value(child, "key").await.unwrap();
        assert_eq!(value.as_deref(), Some("value"));
        assert!(storage.list_secrets(child).await.unwrap().is_empty());

        files
            .write_file(child, "/a/b.txt", "other", "text")
            .await
            .unwrap();
        let copy = runtime
            .read_file(parent, "/a/b.txt")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(copy.content.as_deref(), Some("text"));
    })
    .await;
}

#[tokio::test]
async fn fork_at_an_open_or_unknown_turn_is_refused() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let first = fixture.run("one").await;
        let gate = Gate::shut();
        fixture.model.then(ScriptedCall::new().wait(&gate).text("late").done());
        let handle = fixture.runtime.submit(fixture.session, "two").await.unwrap();
        let open = handle.turn_id();
        gate.reached(1).await;
        for at in [ForkAt::Turn(open), ForkAt::Latest] {
            let refused = fork(&fixture, at).await;
            assert!(
                matches!(refused, Err(AgentLoopError::TurnBusy { turn_id, .. }) if turn_id == open),
                "{at:?}: {refused:?}"
            );
        }
        let unknown = TurnId::from_seed(9);
        let refused = fork(&fixture, ForkAt::Turn(unknown)).await;
        assert!(
            matches!(refused, Err(AgentLoopError::TurnNotFound { turn_id, .. }) if turn_id == unknown),
            "{refused:?}"
        );
        let unknown = SessionId::from_seed(9);
        let refused = fixture.runtime.fork_session(unknown, ForkAt::Start, ForkOptions::new());
        assert!(matches!(refused.await, Err(AgentLoopError::SessionNotFound(id)) if id == unknown));

        let child = fork(&fixture, ForkAt::Turn(first.turn_id)).await.unwrap();
        assert_eq!(said(&fixture.runtime, child).await, ["one", "ok"]);
        gate.open();
        assert!(soon(handle.wait()).await.unwrap().success);
        assert_eq!(fixture.runtime.list_sessions().await.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn fork_before_a_turn_does_not_contain_it() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let (runtime, parent) = (&fixture.runtime, fixture.session);
        let first = fixture.run("one").await;
        let second = fixture.run("two").await;
        let gate = Gate::shut();
        fixture
            .model
            .then(ScriptedCall::new().wait(&gate).text("late").done());
        let handle = runtime.submit(parent, "three").await.unwrap();
        gate.reached(1).await;
        for (turn_id, expected) in [
            (first.turn_id, &[][..]),
            (second.turn_id, &["one", "ok"]),
            (handle.turn_id(), &["one", "ok", "two", "ok"]),
        ] {
            let child = fork(&fixture, ForkAt::Before(turn_id)).await.unwrap();
            assert_eq!(said(runtime, child).await, expected);
            assert_sound(&runtime.events_for(child).await.unwrap());
            // The shared part has the same sequence numbers.
            if turn_id != first.turn_id {
                let at = ForkAt::Before(first.turn_id);
                let forking = runtime.fork_session(child, at, ForkOptions::new());
                let again = soon(forking).await.unwrap();
                assert!(said(runtime, again).await.is_empty());
            }
        }
        let unknown = fork(&fixture, ForkAt::Before(TurnId::from_seed(9))).await;
        assert!(
            matches!(unknown, Err(AgentLoopError::TurnNotFound { .. })),
            "{unknown:?}"
        );
        gate.open();
        assert!(soon(handle.wait()).await.unwrap().success);
    })
    .await;
}

#[tokio::test]
async fn fork_has_the_hosts_record_and_the_given_id() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let (runtime, parent) = (&fixture.runtime, fixture.session);
        let turn = fixture.run("one").await;
        let id = SessionId::from_seed(77);
        let options = || {
            let options = ForkOptions::new().id(id).depth(2);
            let options = options.dropped_turn(turn.turn_id);
            options.record(windlass_core::ThreadRecord::default())
        };
        let made = runtime.fork_session(parent, ForkAt::Latest, options());
        assert_eq!(soon(made).await.unwrap(), id);
        let events = runtime.events_for(id).await.unwrap();
        let Some(EventData::SessionForked(data)) = events.last().map(|event| &event.data) else {
            panic!("{events:?}")
        };
        assert_eq!(data.record, Some(Box::default()));
        assert_eq!(
            (data.dropped_turn_id, data.depth),
            (Some(turn.turn_id), Some(2))
        );

        let again = runtime.fork_session(parent, ForkAt::Latest, options());
        let again = soon(again).await;
        assert!(
            matches!(again, Err(AgentLoopError::NotForkable { session_id, .. }) if session_id == parent),
            "{again:?}"
        );
        assert_eq!(runtime.events_for(id).await.unwrap(), events);
        assert_eq!(said(runtime, id).await, ["one", "ok"]);
    })
    .await;
}

#[tokio::test]
async fn queued_input_of_the_parent_is_not_forked() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let gate = Gate::shut();
        fixture
            .model
            .then(ScriptedCall::new().wait(&gate).text("first").done());
        let first = fixture
            .runtime
            .submit(fixture.session, "one")
            .await
            .unwrap();
        let second = fixture
            .runtime
            .submit(fixture.session, "two")
            .await
            .unwrap();
        let at = ForkAt::Turn(first.turn_id());
        gate.open();
        soon(second.wait()).await.unwrap();
        let calls = fixture.model.calls();
        let child = fork(&fixture, at).await.unwrap();
        assert_eq!(said(&fixture.runtime, child).await, ["one", "first"]);
        let events = fixture.runtime.events_for(child).await.unwrap();
        assert_eq!(types(&events).last(), Some(&"turn.cancelled"));
        assert_eq!(fixture.model.calls(), calls);
        assert_sound(&events);
    })
    .await;
}

#[tokio::test]
async fn failed_fork_leaves_nothing_behind() {
    let journal = SpyJournal::new(windlass_runtime::MemoryJournal::new());
    let backends = RuntimeBackends::on_journal(journal.clone());
    let fixture = Setup::default().backends(backends).build().await;
    fixture.run("one").await;
    journal.fail_after(0);
    let refused = fork(&fixture, ForkAt::Latest).await;
    assert!(
        matches!(refused, Err(AgentLoopError::StoreUnavailable(_))),
        "{refused:?}"
    );
    assert_eq!(fixture.runtime.list_sessions().await.unwrap().len(), 1);
    assert!(fork(&fixture, ForkAt::Latest).await.is_ok());
    fixture.assert_usable().await;
}

#[tokio::test]
async fn rewound_session_continues_from_the_earlier_turn() {
    each_store(async |setup: Setup| {
        let backends = setup.backends.clone();
        let fixture = setup.build().await;
        let (runtime, session) = (&fixture.runtime, fixture.session);
        let first = fixture.run("one").await;
        let second = fixture.run("two").await;
        soon(runtime.rewind_session(session, first.turn_id))
            .await
            .unwrap();
        assert_eq!(said(runtime, session).await, ["one", "ok"]);
        let turn = fixture.run("three").await;
        assert!(turn.success);
        assert_eq!(
            fixture.model.sent(fixture.model.calls() - 1),
            ["User: one", "Assistant: ok", "User: three"]
        );
        fixture.assert_sound().await;
        let all = types(&fixture.events().await).join(" ");
        assert_eq!(
            all.matches("turn.started").count(),
            3,
            "nothing is forgotten"
        );

        // Rewound turns can still be forked.
        let child = fork(&fixture, ForkAt::Turn(second.turn_id)).await.unwrap();
        assert_eq!(said(runtime, child).await, ["one", "ok", "two", "ok"]);
        let latest = fork(&fixture, ForkAt::Latest).await.unwrap();
        assert_eq!(said(runtime, latest).await, ["one", "ok", "three", "ok"]);
        soon(runtime.rewind_session(latest, first.turn_id))
            .await
            .unwrap();
        assert_eq!(said(runtime, latest).await, ["one", "ok"]);

        // A new process has the same result.
        let Some(backends) = backends else { return };
        let again = Setup::default().backends(backends).build().await;
        assert_eq!(
            said(&again.runtime, session).await,
            ["one", "ok", "three", "ok"]
        );
        assert_eq!(said(&again.runtime, latest).await, ["one", "ok"]);
    })
    .await;
}

#[tokio::test]
async fn rewind_needs_an_idle_session_and_a_known_turn() {
    let fixture = Setup::default().build().await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let first = fixture.run("one").await;
    let unknown = runtime.rewind_session(session, TurnId::from_seed(9)).await;
    assert!(
        matches!(unknown, Err(AgentLoopError::TurnNotFound { .. })),
        "{unknown:?}"
    );
    let gate = Gate::shut();
    fixture
        .model
        .then(ScriptedCall::new().wait(&gate).text("late").done());
    // Both are on their way at once: the input came first, so its turn is in the way.
    let running = runtime.submit(session, "two");
    let refused = runtime.rewind_session(session, first.turn_id);
    let (running, refused) = soon(async { tokio::join!(biased; running, refused) }).await;
    let running = running.unwrap();
    assert!(
        matches!(refused, Err(AgentLoopError::TurnBusy { turn_id, .. }) if turn_id == running.turn_id()),
        "{refused:?}"
    );
    gate.open();
    assert!(soon(running.wait()).await.unwrap().success);
    soon(runtime.rewind_session(session, first.turn_id))
        .await
        .unwrap();
    assert_eq!(said(runtime, session).await, ["one", "ok"]);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn fork_replaces_only_the_remains_of_a_killed_fork() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        fixture.run("one").await;
        let (runtime, parent) = (&fixture.runtime, fixture.session);
        // The process was killed before the fork shared the conversation: the session exists, but has no events.
        let left = SessionId::from_seed(0xf0);
        let mut record = runtime.session(parent).await.unwrap();
        record.id = left;
        fixture.runtime.add_session(record).await.unwrap();
        let named = || ForkOptions::new().id(left);
        let child = runtime.fork_session(parent, ForkAt::Latest, named()).await;
        assert_eq!(child.unwrap(), left);
        assert_eq!(said(runtime, left).await, ["one", "ok"]);
        let again = runtime.fork_session(parent, ForkAt::Latest, named()).await;
        let is_refused = matches!(again, Err(AgentLoopError::NotForkable { .. }));
        assert!(is_refused, "{again:?}");
        assert_eq!(said(runtime, left).await, ["one", "ok"]);
    })
    .await;
}

#[tokio::test]
async fn concurrent_forks_to_one_id_create_one_session() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        fixture.run("one").await;
        let (runtime, parent) = (&fixture.runtime, fixture.session);
        let child = SessionId::from_seed(0xf1);
        let fork = || runtime.fork_session(parent, ForkAt::Latest, ForkOptions::new().id(child));
        let made = tokio::join!(fork(), fork(), fork());
        let made = [made.0.is_ok(), made.1.is_ok(), made.2.is_ok()];
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
        assert_eq!(said(runtime, child).await, ["one", "ok"]);
    })
    .await;
}
