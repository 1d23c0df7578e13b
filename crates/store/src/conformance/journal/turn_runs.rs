//! Turns as runs.

use serde_json::json;
use windlass_core::events::{
    EventContext, EventData, EventRequest, SessionForkedData, SessionStartedData,
};
use windlass_core::runs::{OWN_AGENT, RunStatus};
use windlass_core::typed_id::{EventId, SessionId, TurnId};

use super::subject::{Store, Subject};
use super::turns::{ended, put, queued, started};
use crate::conformance::check::{Outcome, Violation};
use crate::journal::{StreamKey, TurnRun};
use crate::runs::RunFilter;

fn of_agent(agent: &str) -> EventData {
    EventData::SessionStarted(SessionStartedData {
        title: None,
        record: Some(json!({"agent": agent})),
    })
}

async fn list(store: &Store, filter: RunFilter) -> Result<Vec<TurnRun>, Violation> {
    Ok(store.turn_runs(filter, 100).await?)
}

async fn turns(store: &Store, filter: RunFilter) -> Result<Vec<TurnId>, Violation> {
    let runs = list(store, filter).await?;
    Ok(runs.iter().map(|run| run.turn_id).collect())
}

pub(super) async fn turns_are_runs_of_their_agents(store: Store) -> Outcome {
    let ours = Subject::new(store.clone(), "ours").await?;
    let theirs = Subject::new(store.clone(), "theirs").await?;
    let [a, b, c] = [(); 3].map(|()| TurnId::new());
    put(&theirs, 1, of_agent("worker")).await?;
    put(&ours, 1, started(a)?).await?;
    put(&theirs, 2, started(b)?).await?;
    put(&ours, 2, queued(c)?).await?;
    require_eq!(
        turns(&store, RunFilter::default()).await?,
        [b, a],
        "what waits has not begun"
    );
    put(&ours, 3, ended(a)?).await?;
    put(&ours, 4, started(c)?).await?;
    for (agent, status, expected) in [
        (None, None, vec![c, b, a]),
        (None, Some(RunStatus::InProgress), vec![c, b]),
        (None, Some(RunStatus::Cancelled), vec![a]),
        (Some(OWN_AGENT), None, vec![c, a]),
        (Some("worker"), None, vec![b]),
        (Some("worker"), Some(RunStatus::Cancelled), vec![]),
        (Some("nobody"), None, vec![]),
    ] {
        let filter = RunFilter {
            agent_id: agent.map(str::to_owned),
            status,
            before: None,
        };
        let found = turns(&store, filter).await?;
        require_eq!(found, expected, "{agent:?} {status:?}");
    }
    let all = list(&store, RunFilter::default()).await?;
    let before = all.get(1).map(|run| run.position);
    let filter = RunFilter {
        before,
        ..RunFilter::default()
    };
    require_eq!(turns(&store, filter).await?, [a], "behind a place");
    let found = store.turn_run(b).await?;
    require_eq!(found.as_ref(), all.get(1), "one that is looked for");
    require_eq!(
        found.map(|run| (run.stream, run.first_seq, run.summary.agent_id)),
        Some((theirs.key.clone(), 2, "worker".to_owned())),
        "where it is"
    );
    store.remove(&theirs.key).await?;
    require_eq!(
        turns(&store, RunFilter::default()).await?,
        [c, a],
        "after its stream is gone"
    );
    require_eq!(store.turn_run(b).await?, None, "one that is gone");
    Ok(())
}

pub(super) async fn what_a_fork_copied_is_no_run_of_its_own(store: Store) -> Outcome {
    let parent = Subject::new(store.clone(), "parent").await?;
    let (a, b) = (TurnId::new(), TurnId::new());
    put(&parent, 1, of_agent("worker")).await?;
    put(&parent, 2, started(a)?).await?;
    put(&parent, 3, ended(a)?).await?;
    let data = SessionForkedData {
        parent_session_id: SessionId::from_seed(7),
        parent_sequence: 3,
        record: Some(json!({"agent": "other"})),
        dropped_turn_id: None,
        depth: None,
    };
    let forked = EventRequest::new(SessionId::from_seed(8), EventContext::default(), data);
    let forked = forked.into_event(EventId::new(), None);
    let child = StreamKey::new("child");
    let head = store.fork(&parent.key, 3, &child, forked).await?;
    let child = Subject::new(store.clone(), "child").await?;
    put(&child, head + 1, started(b)?).await?;
    let runs = list(&store, RunFilter::default()).await?;
    let shown: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run.turn_id,
                run.stream.as_str(),
                run.summary.agent_id.as_str(),
            )
        })
        .collect();
    require_eq!(
        shown,
        [(b, "child", "other"), (a, "parent", "worker")],
        "runs of both"
    );
    store.remove(&parent.key).await?;
    require_eq!(
        turns(&store, RunFilter::default()).await?,
        [b],
        "without the parent"
    );
    Ok(())
}
