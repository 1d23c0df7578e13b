//! The rules of a log of runs.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use windlass_core::runs::{
    OutcomeStatus, RunEnded, RunRecord, RunStarted, RunStatus, RunTurn, Termination,
};

use super::check::{CheckOutcome, ConformanceCheck};
use crate::journal::JournalError;
use crate::runs::{BeginOutcome, RunFilter, RunLog, StoredRun};

type RunLogRef = Arc<dyn RunLog>;

/// The rules of every run log.
pub const RUN_CHECKS: &[ConformanceCheck<dyn RunLog>] = checks![
    self::start_is_stored_and_reserves_its_id,
    self::one_of_concurrent_starts_succeeds,
    self::records_are_appended_and_the_row_follows,
    self::ended_run_accepts_no_records,
    self::take_over_fences_the_previous_writer,
    self::lists_show_the_newest_first_by_agent_and_status,
    self::pages_end_by_count_and_by_bytes,
    self::watch_sees_a_record,
    self::only_old_ended_runs_are_forgotten,
];

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn started(run_id: &str, agent_id: &str) -> RunStarted {
    RunStarted {
        run_id: run_id.to_owned(),
        agent_id: agent_id.to_owned(),
        intent: format!("do {run_id}"),
        outcome_description: None,
        started_at: at(1),
    }
}

fn turn(index: u64) -> RunRecord {
    RunRecord::Turn(RunTurn {
        index,
        tool: Some("bash".to_owned()),
        output: Some(json!({"exit_code": index})),
        ..RunTurn::default()
    })
}

fn ended(run: &StoredRun, termination: Termination, seconds: i64) -> RunRecord {
    RunRecord::Ended(RunEnded {
        run_id: run.summary.run_id.clone(),
        agent_id: run.summary.agent_id.clone(),
        termination,
        ended_at: at(seconds),
    })
}

fn success() -> Termination {
    Termination::Outcome {
        status: OutcomeStatus::Success,
        outcome: Box::new(windlass_core::runs::RunOutcome {
            status: OutcomeStatus::Success,
            summary: String::new(),
            evidence: Vec::new(),
            metrics: windlass_core::runs::OutcomeMetrics::default(),
            timestamp: at(2),
        }),
    }
}

async fn begin(log: &RunLogRef, run_id: &str, agent_id: &str) -> Result<StoredRun, JournalError> {
    match log.begin(started(run_id, agent_id), "client").await? {
        BeginOutcome::New(run) => Ok(run),
        BeginOutcome::Existing(_) => Err(JournalError::Unavailable(format!("{run_id} is taken"))),
    }
}

async fn start_is_stored_and_reserves_its_id(log: RunLogRef) -> CheckOutcome {
    let run = begin(&log, "r", "a").await?;
    require_eq!(run.summary.status, RunStatus::InProgress, "status");
    require_eq!(log.get("r").await?, Some(run.clone()), "the stored run");
    require_eq!(log.get("session_1").await?, None, "a missing run");
    let again = log.begin(started("r", "b"), "other").await?;
    require_eq!(again, BeginOutcome::Existing(run), "a second start");
    let page = log.read("r", 0, 10, usize::MAX).await?;
    let expected = vec![RunRecord::Started(started("r", "a"))];
    require_eq!((page.records, page.head), (expected, 1), "records");
    Ok(())
}

async fn one_of_concurrent_starts_succeeds(log: RunLogRef) -> CheckOutcome {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let log = Arc::clone(&log);
        tasks.spawn(async move {
            let begun = log.begin(started("r", "a"), &number.to_string()).await;
            matches!(begun, Ok(BeginOutcome::New(_)))
        });
    }
    let made = tasks.join_all().await.into_iter().filter(|is_new| *is_new);
    require_eq!(made.count(), 1, "new runs");
    Ok(())
}

async fn records_are_appended_and_the_row_follows(log: RunLogRef) -> CheckOutcome {
    let run = begin(&log, "r", "a").await?;
    let run = log.append(&run, vec![turn(0), turn(1)]).await?;
    let run = log.append(&run, vec![turn(2)]).await?;
    require_eq!(run.summary.turn_count, 3, "turns");
    require_eq!(run.head(), 4, "head");
    let run = log.append(&run, vec![ended(&run, success(), 9)]).await?;
    require_eq!(log.get("r").await?, Some(run.clone()), "the row");
    let summary = &run.summary;
    let expected = (
        RunStatus::Completed,
        Some(OutcomeStatus::Success),
        Some(at(9)),
    );
    let found = (summary.status, summary.outcome, summary.ended_at);
    require_eq!(found, expected, "the end");
    let page = log.read("r", 1, 10, usize::MAX).await?;
    let numbers = page.records.iter().filter(|record| record.is_turn());
    require_eq!((numbers.count(), page.head), (3, 5), "records");
    Ok(())
}

async fn ended_run_accepts_no_records(log: RunLogRef) -> CheckOutcome {
    let run = begin(&log, "r", "a").await?;
    let end = ended(&run, Termination::Incomplete, 3);
    let done = log.append(&run, vec![end.clone()]).await?;
    for (seen, writer) in [
        (&run, "a writer that did not see the end"),
        (&done, "a writer that saw the end"),
    ] {
        let refused = log.append(seen, vec![end.clone()]).await;
        require!(
            matches!(refused, Err(JournalError::OutOfSequence { head: 2, .. })),
            "{writer}: {refused:?}"
        );
    }
    require_eq!(log.get("r").await?, Some(done), "after refused appends");
    Ok(())
}

async fn take_over_fences_the_previous_writer(log: RunLogRef) -> CheckOutcome {
    let old = begin(&log, "r", "a").await?;
    let new = log.take_over(&old, "second").await?;
    require_eq!(new.client, "second", "client");
    let refused = log.append(&old, vec![turn(0)]).await;
    require!(
        matches!(refused, Err(JournalError::Fenced { .. })),
        "{refused:?}"
    );
    let refused = log.take_over(&old, "third").await;
    require!(
        matches!(refused, Err(JournalError::Fenced { .. })),
        "{refused:?}"
    );
    let new = log.append(&new, vec![turn(0)]).await?;
    require_eq!(log.get("r").await?, Some(new.clone()), "the run");
    let end = ended(&new, Termination::Incomplete, 3);
    let done = log.append(&new, vec![end]).await?;
    for seen in [&new, &done] {
        let refused = log.take_over(seen, "fourth").await;
        require!(
            matches!(refused, Err(JournalError::OutOfSequence { .. })),
            "taking over an ended run: {refused:?}"
        );
    }
    Ok(())
}

async fn lists_show_the_newest_first_by_agent_and_status(log: RunLogRef) -> CheckOutcome {
    for number in 0..12 {
        let agent = ["a", "b", "c"][number % 3];
        let run = begin(&log, &format!("r{number}"), agent).await?;
        let end = match number % 4 {
            0 => continue,
            1 => success(),
            2 => Termination::Incomplete,
            _ => Termination::Cancelled {
                cancellation: json!({}),
            },
        };
        log.append(&run, vec![ended(&run, end, 5)]).await?;
    }
    let listed = async |agent: Option<&str>, status, before| {
        let filter = RunFilter {
            agent_id: agent.map(str::to_owned),
            status,
            before,
            kind: None,
        };
        let runs = log.list(filter, 3).await?;
        let last = runs.last().map(|run| run.position);
        let ids: Vec<String> = runs.into_iter().map(|run| run.summary.run_id).collect();
        Ok::<_, JournalError>((ids, last))
    };
    let (all, last) = listed(None, None, None).await?;
    require_eq!(all, ["r11", "r10", "r9"], "all");
    require_eq!(
        listed(None, None, last).await?.0,
        ["r8", "r7", "r6"],
        "the next page"
    );
    let (of_a, last) = listed(Some("a"), None, None).await?;
    require_eq!(of_a, ["r9", "r6", "r3"], "by agent");
    require_eq!(listed(Some("a"), None, last).await?.0, ["r0"], "the rest");
    let open = Some(RunStatus::InProgress);
    require_eq!(
        listed(None, open, None).await?.0,
        ["r8", "r4", "r0"],
        "by status"
    );
    require_eq!(listed(Some("b"), open, None).await?.0, ["r4"], "by both");
    let none: [&str; 0] = [];
    require_eq!(
        listed(Some("d"), None, None).await?.0,
        none,
        "of an unknown agent"
    );
    Ok(())
}

async fn pages_end_by_count_and_by_bytes(log: RunLogRef) -> CheckOutcome {
    let run = begin(&log, "r", "a").await?;
    log.append(&run, (0..8).map(turn).collect()).await?;
    let count = async |after, limit, bytes| {
        let page = log.read("r", after, limit, bytes).await?;
        Ok::<_, JournalError>((page.records.len(), page.head))
    };
    require_eq!(count(0, 5, usize::MAX).await?, (5, 9), "a page");
    require_eq!(count(5, 5, usize::MAX).await?, (4, 9), "the rest");
    require_eq!(count(9, 5, usize::MAX).await?, (0, 9), "past the end");
    require_eq!(count(0, 5, 1).await?, (1, 9), "at least one record");
    require_eq!(count(1, 5, 100).await?, (2, 9), "few bytes");
    let missing = log.read("x", 0, 5, usize::MAX).await?;
    require_eq!((missing.records.len(), missing.head), (0, 0), "no such run");
    Ok(())
}

async fn watch_sees_a_record(log: RunLogRef) -> CheckOutcome {
    let run = begin(&log, "r", "a").await?;
    let mut watch = log.watch("r").await?;
    require_eq!(*watch.borrow_and_update(), 1, "at first");
    log.append(&run, vec![turn(0)]).await?;
    require!(watch.changed().await.is_ok(), "the watch is gone");
    require_eq!(*watch.borrow(), 2, "after a turn");
    Ok(())
}

async fn only_old_ended_runs_are_forgotten(log: RunLogRef) -> CheckOutcome {
    for (run_id, end) in [("old", Some(10)), ("open", None), ("young", Some(100))] {
        let run = begin(&log, run_id, "a").await?;
        if let Some(end) = end {
            log.append(&run, vec![ended(&run, Termination::Incomplete, end)])
                .await?;
        }
    }
    require_eq!(log.forget(at(50), 10).await?, 1, "forgotten");
    require_eq!(log.forget(at(50), 10).await?, 0, "forgotten again");
    require_eq!(log.get("old").await?, None, "the old one");
    require_eq!(log.read("old", 0, 9, 9).await?.head, 0, "its records");
    for run_id in ["open", "young"] {
        require!(log.get(run_id).await?.is_some(), "{run_id} is gone");
    }
    Ok(())
}
