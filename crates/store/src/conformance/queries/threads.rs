//! Lists of threads.

use serde_json::json;
use windlass_core::items::TurnStatus;
use windlass_core::session::SessionStatus;
use windlass_core::thread_record::ThreadRecord;

use super::subject::{QueryStoresRef, ThreadFixture, at, of_agent};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::queries::{Counts, Include, ThreadQuery, ThreadState, UsageBy, UsageQuery};
use crate::runs::RunFilter;

/// Lists names, page by page.
async fn names(store: &QueryStoresRef, query: ThreadQuery) -> Result<Vec<Vec<String>>, Violation> {
    let (mut pages, mut query) = (Vec::new(), query);
    loop {
        let page = store.queries.threads(query.clone()).await?;
        let names = page.entries.iter().map(|thread| thread.stream.to_string());
        pages.push(names.collect());
        if page.next.is_none() {
            return Ok(pages);
        }
        query.after = page.next;
    }
}

fn in_states(states: &[ThreadState], limit: usize) -> ThreadQuery {
    ThreadQuery {
        states: states.to_vec(),
        ..ThreadQuery::first(limit)
    }
}

pub(super) async fn threads_are_listed_by_their_last_update(store: QueryStoresRef) -> CheckOutcome {
    use ThreadState::{Idle, Running, Waiting};
    let mut threads = Vec::new();
    for (name, clock) in [("a", 0), ("b", 1), ("c", 2)] {
        let mut thread = ThreadFixture::new(&store, name).await?;
        thread.clock = clock;
        thread.note().await?;
        threads.push(thread);
    }
    ThreadFixture::new(&store, "empty").await?;
    threads[0].clock = 9;
    let turn = threads[0].start().await?;
    threads[0].end(turn).await?;
    threads[1].clock = 29;
    threads[1].start().await?;
    // An event outside of any turn does not change the time of the last update.
    threads[0].clock = 39;
    threads[0].note().await?;
    for (states, limit, expected) in [
        (&[][..], 9, vec![vec!["b", "a", "c"]]),
        (&[], 2, vec![vec!["b", "a"], vec!["c"]]),
        (&[], 3, vec![vec!["b", "a", "c"]]),
        (&[Running, Waiting], 9, vec![vec!["b"]]),
        (&[Waiting], 9, vec![vec![]]),
        (&[Idle], 1, vec![vec!["a"], vec!["c"]]),
        (&[Idle, Running], 2, vec![vec!["b", "a"], vec!["c"]]),
    ] {
        let listed = names(&store, in_states(states, limit)).await?;
        require_eq!(listed, expected, "{states:?} by {limit}");
    }
    let none = store.queries.threads(ThreadQuery::first(0)).await?;
    require!(none.entries.is_empty(), "none were asked for: {none:?}");
    Ok(())
}

pub(super) async fn thread_shows_its_current_state(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let missing = store.queries.thread(&thread.key).await?;
    require!(missing.is_none(), "a stream without records is no thread");
    thread.note().await?;
    let shown = thread.thread().await?;
    require_eq!(shown.status(), SessionStatus::Started, "at first");
    require_eq!(shown.latest, None, "its turn at first");
    let turn = thread.start().await?;
    let shown = thread.thread().await?;
    require_eq!(shown.status(), SessionStatus::Active, "in a turn");
    require_eq!(shown.open_turn().map(|turn| turn.id), Some(turn), "open");
    let first = shown.latest.map(|turn| turn.first_seq);
    require_eq!(first, Some(2), "where the turn began");
    thread.cancel(turn).await?;
    thread.note().await?;
    let shown = thread.thread().await?;
    require_eq!(shown.status(), SessionStatus::Idle, "after a turn");
    let latest = shown.latest.as_ref().map(|turn| turn.status);
    require_eq!(latest, Some(TurnStatus::Interrupted), "how it ended");
    require_eq!((shown.seq, shown.turns), (4, 1), "record and turns");
    require_eq!(
        [shown.created_at, shown.updated_at, shown.at],
        [at(1), at(3), at(4)],
        "times"
    );
    let listed = store.queries.threads(ThreadQuery::first(1)).await?;
    require_eq!(listed.entries, [shown], "the list");
    Ok(())
}

pub(super) async fn host_record_determines_owner_and_archival(
    store: QueryStoresRef,
) -> CheckOutcome {
    let mut ours = ThreadFixture::new(&store, "ours").await?;
    ours.make(of_agent("a", false)).await?;
    let mut theirs = ThreadFixture::new(&store, "theirs").await?;
    theirs.clock = 5;
    theirs.make(of_agent("b", false)).await?;
    let changed = json!({ "record": of_agent("b", true) });
    theirs
        .say(Default::default(), "session.updated", changed)
        .await?;
    let mut bare = ThreadFixture::new(&store, "bare").await?;
    bare.note().await?;
    for (include, agent, expected) in [
        (Include::All, None, &["theirs", "bare", "ours"][..]),
        (Include::Recorded, None, &["theirs", "ours"]),
        (Include::Current, None, &["ours"]),
        (Include::Archived, None, &["theirs"]),
        (Include::All, Some("b"), &["theirs"]),
        (Include::Current, Some("b"), &[]),
        (Include::Archived, Some("b"), &["theirs"]),
        (Include::Recorded, Some("a"), &["ours"]),
        (Include::All, Some("unknown"), &[]),
    ] {
        let query = ThreadQuery {
            include,
            agent: agent.map(str::to_owned),
            ..ThreadQuery::first(9)
        };
        let listed = names(&store, query).await?;
        require_eq!(listed, [expected], "{include:?} of {agent:?}");
    }
    let shown = theirs.thread().await?;
    let record = shown.record.as_ref().map(|record| record.seq);
    require_eq!(record, Some(2), "the event that brought the record");
    require_eq!(shown.updated_at, at(7), "a changed record is an update");
    Ok(())
}

pub(super) async fn thread_shows_preview_and_totals(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let labels = json!({"provider": "x"});
    let outline = json!({"input_summary": "do it", "labels": labels});
    let turn = thread.start_with(outline).await?;
    thread.answer(turn, &"long ".repeat(50)).await?;
    thread.answer(turn, "").await?;
    let usage = json!({"input_tokens": 3, "output_tokens": 4});
    let items = json!({"item_ids": []});
    thread.end_with(turn, Some(items), usage.clone()).await?;
    let again = thread.start_with(json!({"input_summary": "more"})).await?;
    let shown = thread.thread().await?;
    require_eq!(shown.preview.chars().count(), 140, "the preview is cut");
    let latest = shown.latest.map(|turn| (turn.input_summary, turn.labels));
    require_eq!(latest, Some(("more".to_owned(), None)), "the newest input");
    thread.end_with(again, None, usage).await?;
    let shown = thread.thread().await?;
    let tokens = shown.usage.map(|usage| usage.total_tokens());
    require_eq!((shown.turns, tokens), (2, Some(14)), "turns and usage");
    Ok(())
}

pub(super) async fn search_covers_the_shown_fields(store: QueryStoresRef) -> CheckOutcome {
    let mut titled = ThreadFixture::new(&store, "titled").await?;
    let mut record = ThreadRecord {
        title: Some("Größe of things".to_owned()),
        ..ThreadRecord::default()
    };
    record.policy.model = "Claude".to_owned();
    titled.make(record).await?;
    titled
        .start_with(json!({"input_summary": "hidden"}))
        .await?;
    let mut plain = ThreadFixture::new(&store, "plain").await?;
    plain.clock = 9;
    let turn = plain.start_with(json!({"input_summary": "Words"})).await?;
    plain.answer(turn, "an Answer 100% sure").await?;
    for (search, expected) in [
        ("GRÖSSE", &[][..]),
        ("größe", &["titled"]),
        ("GRÖß", &["titled"]),
        ("claude", &["titled"]),
        ("hidden", &[]),
        ("word", &["plain"]),
        ("100%", &["plain"]),
        ("1_0", &[]),
        ("ITLE", &["titled"]),
        ("", &["plain", "titled"]),
    ] {
        let query = ThreadQuery {
            search: Some(search.to_owned()),
            ..ThreadQuery::first(9)
        };
        require_eq!(names(&store, query).await?, [expected], "{search}");
    }
    Ok(())
}

pub(super) async fn threads_are_counted(store: QueryStoresRef) -> CheckOutcome {
    let none = store.queries.counts().await?;
    require_eq!(none, Counts::default(), "at first");
    for (name, archived) in [("a", false), ("b", true)] {
        let mut thread = ThreadFixture::new(&store, name).await?;
        let record = ThreadRecord {
            archived,
            ..ThreadRecord::default()
        };
        thread.make(record).await?;
    }
    let mut bare = ThreadFixture::new(&store, "c").await?;
    let turn = bare.start().await?;
    let mut waiting = ThreadFixture::new(&store, "d").await?;
    let waits = waiting.start().await?;
    let call = waiting.call(waits).await?;
    waiting.ask(waits, call).await?;
    let expected = Counts {
        current: 1,
        archived: 1,
        unrecorded: 2,
        open: 2,
        waiting: 1,
    };
    require_eq!(store.queries.counts().await?, expected, "in turns");
    bare.end(turn).await?;
    let expected = Counts {
        open: 1,
        ..expected
    };
    require_eq!(store.queries.counts().await?, expected, "after one");
    Ok(())
}

pub(super) async fn removed_thread_is_in_no_answer(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let done = thread.start().await?;
    thread
        .end_with(done, None, json!({"input_tokens": 1, "output_tokens": 1}))
        .await?;
    let turn = thread.start().await?;
    let call = thread.call(turn).await?;
    thread.ask(turn, call).await?;
    store.queries.threads(ThreadQuery::first(1)).await?;
    store.journal.remove(&thread.key).await?;
    let queries = &store.queries;
    require_eq!(queries.thread(&thread.key).await?, None, "the thread");
    let listed = queries.threads(ThreadQuery::first(9)).await?;
    require!(listed.entries.is_empty(), "listed: {listed:?}");
    require_eq!(queries.turn(&thread.key, turn).await?, None, "its turn");
    require!(queries.waits(None).await?.is_empty(), "it waits");
    require_eq!(queries.wait(call).await?, None, "its wait");
    require!(
        queries.runs(RunFilter::default(), 9).await?.is_empty(),
        "a run"
    );
    require_eq!(queries.run(&turn.to_string()).await?, None, "its run");
    require_eq!(queries.counts().await?, Counts::default(), "counted");
    let usage = UsageQuery {
        since: None,
        until: None,
        by: UsageBy::Day,
    };
    require_eq!(queries.usage(usage).await?.total.turns, 1, "its usage");
    let mut again = ThreadFixture::new(&store, "s").await?;
    again.note().await?;
    let shown = again.thread().await?;
    require_eq!(
        (shown.seq, shown.turns),
        (1, 0),
        "a new thread of the same name"
    );
    Ok(())
}
