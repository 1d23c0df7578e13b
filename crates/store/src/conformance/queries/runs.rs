//! Runs of both kinds.

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_core::runs::{OWN_AGENT, RunEnded, RunRecord, RunStarted, RunStatus, Termination};
use windlass_core::typed_id::TurnId;

use super::subject::{QueryStoresRef, ThreadFixture, at, of_agent};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::queries::RunRow;
use crate::runs::{BeginOutcome, RunFilter, RunKind, StoredRun};

fn filter(agent: Option<&str>, status: Option<RunStatus>) -> RunFilter {
    RunFilter {
        agent_id: agent.map(str::to_owned),
        status,
        ..RunFilter::default()
    }
}

async fn list(store: &QueryStoresRef, filter: RunFilter) -> Result<Vec<RunRow>, Violation> {
    Ok(store.queries.runs(filter, 9).await?)
}

async fn ids(store: &QueryStoresRef, filter: RunFilter) -> Result<Vec<String>, Violation> {
    let runs = list(store, filter).await?.into_iter();
    Ok(runs.map(|run| run.summary().run_id.clone()).collect())
}

fn names(turns: &[TurnId]) -> Vec<String> {
    turns.iter().map(ToString::to_string).collect()
}

async fn begin(
    store: &QueryStoresRef,
    run_id: &str,
    agent_id: &str,
    started_at: DateTime<Utc>,
) -> Result<StoredRun, Violation> {
    let started = RunStarted {
        run_id: run_id.to_owned(),
        agent_id: agent_id.to_owned(),
        intent: format!("do {run_id}"),
        outcome_description: None,
        started_at,
    };
    match store.runs.begin(started, "client").await? {
        BeginOutcome::New(run) => Ok(run),
        BeginOutcome::Existing(_) => Err(Violation(format!("{run_id} is taken"))),
    }
}

async fn end(store: &QueryStoresRef, run: &StoredRun, termination: Termination) -> CheckOutcome {
    let ended = RunRecord::Ended(RunEnded {
        run_id: run.summary.run_id.clone(),
        agent_id: run.summary.agent_id.clone(),
        termination,
        ended_at: at(500),
    });
    store.runs.append(run, vec![ended]).await?;
    Ok(())
}

pub(super) async fn turns_are_runs_of_their_agents(store: QueryStoresRef) -> CheckOutcome {
    let mut ours = ThreadFixture::new(&store, "ours").await?;
    let mut theirs = ThreadFixture::new(&store, "theirs").await?;
    theirs.clock = 50;
    theirs.make(of_agent("worker", false)).await?;
    let waits =
        json!({"turn_id": TurnId::new(), "message": windlass_core::message::Message::user("x")});
    ours.say(Default::default(), "input.queued", waits).await?;
    let a = ours.start_with(json!({"input_summary": "sum up"})).await?;
    let b = theirs.start().await?;
    ours.answer(a, "x").await?;
    ours.cancel(a).await?;
    ours.clock = 99;
    let c = ours.start().await?;
    for (agent, status, expected) in [
        (None, None, &[c, b, a][..]),
        (None, Some(RunStatus::InProgress), &[c, b]),
        (None, Some(RunStatus::Cancelled), &[a]),
        (Some(OWN_AGENT), None, &[c, a]),
        (Some("worker"), None, &[b]),
        (Some("worker"), Some(RunStatus::Cancelled), &[]),
        (Some("unknown"), None, &[]),
    ] {
        let found = ids(&store, filter(agent, status)).await?;
        require_eq!(found, names(expected), "{agent:?} {status:?}");
    }
    let all = list(&store, RunFilter::default()).await?;
    let behind = RunFilter {
        before: all.get(1).map(RunRow::position),
        ..RunFilter::default()
    };
    require_eq!(ids(&store, behind).await?, names(&[a]), "before a position");
    let found = store.queries.run(&b.to_string()).await?;
    require_eq!(found.as_ref(), all.get(1), "a run by its ID");
    let Some(RunRow::Turn(found)) = found else {
        return Err(Violation("it is no turn".to_owned()));
    };
    require_eq!((found.stream, found.first_seq), (theirs.key, 2), "where");
    let intent = all.get(2).map(|run| run.summary().intent.clone());
    require_eq!(intent.as_deref(), Some("sum up"), "the intent");
    Ok(())
}

pub(super) async fn runs_of_both_kinds_are_one_list(store: QueryStoresRef) -> CheckOutcome {
    let mut thread = ThreadFixture::new(&store, "s").await?;
    let a = thread.start().await?;
    let run = begin(&store, "r", "worker", at(10)).await?;
    thread.end(a).await?;
    thread.clock = 20;
    let b = thread.start().await?;
    let (a, b) = (a.to_string(), b.to_string());
    let all = ids(&store, RunFilter::default()).await?;
    require_eq!(all, [b.as_str(), "r", &a], "all");
    for (kind, expected) in [
        (RunKind::Turn, &[b.as_str(), &a][..]),
        (RunKind::Reported, &["r"]),
    ] {
        let of_kind = RunFilter {
            kind: Some(kind),
            ..RunFilter::default()
        };
        require_eq!(ids(&store, of_kind).await?, expected, "{kind:?}");
    }
    end(&store, &run, Termination::Incomplete).await?;
    let found = store.queries.run("r").await?;
    let head = found.as_ref().map(RunRow::head);
    require_eq!(head, Some(2), "its records");
    let status = found.map(|run| run.summary().status);
    require_eq!(status, Some(RunStatus::Incomplete), "its end");
    let open = ids(&store, filter(None, Some(RunStatus::InProgress))).await?;
    require_eq!(open, [b.as_str()], "open");
    require_eq!(store.queries.run("x").await?, None, "a missing run");
    require_eq!(store.runs.forget(at(501), 9).await?, 1, "forgotten");
    require_eq!(
        ids(&store, RunFilter::default()).await?,
        [b, a],
        "after that"
    );
    Ok(())
}

pub(super) async fn runs_are_listed_by_agent_and_status(store: QueryStoresRef) -> CheckOutcome {
    for number in 0..12 {
        let agent = ["a", "b", "c"][number % 3];
        let run = begin(&store, &format!("r{number}"), agent, at(1)).await?;
        let termination = match number % 4 {
            0 => continue,
            2 => Termination::Incomplete,
            _ => Termination::Cancelled {
                cancellation: json!({}),
            },
        };
        end(&store, &run, termination).await?;
    }
    let listed = async |agent: Option<&str>, status, before| {
        let filter = RunFilter {
            before,
            ..filter(agent, status)
        };
        let runs = store.queries.runs(filter, 3).await?;
        let last = runs.last().map(RunRow::position);
        let ids: Vec<String> = runs
            .iter()
            .map(|run| run.summary().run_id.clone())
            .collect();
        Ok::<_, Violation>((ids, last))
    };
    let (all, last) = listed(None, None, None).await?;
    require_eq!(all, ["r11", "r10", "r9"], "all");
    let next = listed(None, None, last).await?.0;
    require_eq!(next, ["r8", "r7", "r6"], "the next page");
    let (of_a, last) = listed(Some("a"), None, None).await?;
    require_eq!(of_a, ["r9", "r6", "r3"], "by agent");
    require_eq!(listed(Some("a"), None, last).await?.0, ["r0"], "the rest");
    let open = Some(RunStatus::InProgress);
    let listed_open = listed(None, open, None).await?.0;
    require_eq!(listed_open, ["r8", "r4", "r0"], "by status");
    require_eq!(listed(Some("b"), open, None).await?.0, ["r4"], "by both");
    let none: [&str; 0] = [];
    require_eq!(
        listed(Some("d"), None, None).await?.0,
        none,
        "of an unknown agent"
    );
    Ok(())
}
