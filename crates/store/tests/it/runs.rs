//! Runs in memory: the suite, and that they do not grow without end.

use std::sync::Arc;

use chrono::Utc;
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, Termination};
use windlass_store::{BeginOutcome, MemoryRunLog, RunLog, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms() {
    conformance::runs(async || Arc::new(MemoryRunLog::default()) as Arc<dyn RunLog>)
        .await
        .unwrap();
}

#[tokio::test]
async fn newest_ended_runs_and_all_open_runs_are_retained() {
    let log = MemoryRunLog::with_max_ended(3);
    for number in 0..10 {
        let started = RunStarted {
            run_id: number.to_string(),
            agent_id: "a".into(),
            intent: "i".into(),
            outcome_description: None,
            started_at: Utc::now(),
        };
        let BeginOutcome::New(run) = log.begin(started, "c").await.unwrap() else {
            panic!("{number} is taken");
        };
        if number != 0 {
            let ended = RunRecord::Ended(RunEnded {
                run_id: number.to_string(),
                agent_id: "a".into(),
                termination: Termination::Incomplete,
                ended_at: Utc::now(),
            });
            log.append(&run, vec![ended]).await.unwrap();
        }
    }
    let mut retained = Vec::new();
    for number in 0..10 {
        let found = log.get(&number.to_string()).await.unwrap();
        retained.extend(found.map(|run| run.summary.run_id));
    }
    assert_eq!(retained, ["0", "7", "8", "9"]);
}
