//! Turns as runs: what a list shows of each, folded from the events of its stream.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use windlass_core::events::{Event, EventData};
use windlass_core::items::{WaitKind, wait_change};
use windlass_core::runs::{
    OWN_AGENT, OutcomeStatus, RunStatus, RunSummary, end_in, intent, is_step, owner_in, run_of_turn,
};
use windlass_core::typed_id::{ExecId, TurnId};

use super::StreamKey;
use crate::runs::RunFilter;

/// A turn of a session, as a list of runs shows it. Its records are made from the events of its stream.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRun {
    /// Its place among all runs: a later one has a greater place.
    pub position: u64,
    /// The stream of its session.
    pub stream: StreamKey,
    /// The turn.
    pub turn_id: TurnId,
    /// The number of the event that began it.
    pub first_seq: u64,
    /// What a list shows of it.
    pub summary: RunSummary,
}

/// What is kept of a turn, so that lists find it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRow {
    pub(crate) position: u64,
    pub(crate) stream: u64,
    pub(crate) turn: TurnId,
    pub(crate) first: u64,
    /// `None` for a session of no agent.
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) intent: Arc<str>,
    pub(crate) status: RunStatus,
    pub(crate) outcome: Option<OutcomeStatus>,
    pub(crate) waiting: Waiting,
    /// Times are as exact as every journal keeps them: in microseconds.
    pub(crate) started_at: i64,
    pub(crate) ended_at: Option<i64>,
    pub(crate) turns: u64,
}

impl RunRow {
    pub(crate) fn agent(&self) -> &str {
        self.agent.as_deref().unwrap_or(OWN_AGENT)
    }

    pub(crate) fn is_wanted(&self, filter: &RunFilter) -> bool {
        filter.wants(self.position, self.agent(), self.status)
    }

    pub(crate) fn into_run(self, stream: StreamKey) -> TurnRun {
        TurnRun {
            position: self.position,
            turn_id: self.turn,
            first_seq: self.first,
            summary: RunSummary {
                run_id: run_of_turn(self.turn),
                agent_id: self.agent().to_owned(),
                intent: self.intent.as_ref().to_owned(),
                started_at: time(self.started_at),
                ended_at: self.ended_at.map(time),
                status: self.status,
                outcome: self.outcome,
                turn_count: self.turns,
                session_id: stream.as_str().parse().ok(),
                waiting_for: self.waiting.kinds().collect(),
            },
            stream,
        }
    }
}

fn time(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}

/// What a turn waits for: each kind is a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Waiting(pub(crate) u8);

impl Waiting {
    const KINDS: [WaitKind; 3] = [
        WaitKind::Approval,
        WaitKind::UserInput,
        WaitKind::ExternalTool,
    ];

    fn kinds(self) -> impl Iterator<Item = WaitKind> {
        let all = Self::KINDS.into_iter().enumerate();
        all.filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, kind)| kind)
    }

    fn of(waits: &[(ExecId, WaitKind)]) -> Self {
        let has = |kind| waits.iter().any(|(_, waits)| *waits == kind);
        let all = Self::KINDS.into_iter().enumerate();
        Self(all.fold(0, |bits, (bit, kind)| bits | (u8::from(has(kind)) << bit)))
    }
}

/// What an event does to the runs of its stream.
#[derive(Debug)]
pub(crate) enum RunNews {
    /// A run began, went on or ended.
    Row(RunRow),
    /// It is said whose session it is.
    Owner,
    /// What the stream has before this was copied from another one: its turns are runs of that one alone.
    Forked,
}

/// The open turns of a stream, and whose they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunFold {
    agent: Option<Arc<str>>,
    open: Vec<OpenRun>,
}

#[derive(Debug, Clone)]
struct OpenRun {
    row: RunRow,
    waits: Vec<(ExecId, WaitKind)>,
}

#[cfg(feature = "sqlite")]
impl RunFold {
    /// Begins where no turn is open.
    pub(crate) fn of(agent: Option<Arc<str>>) -> Self {
        Self {
            agent,
            open: Vec::new(),
        }
    }

    /// Returns the agent that the session belongs to.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }
}

impl RunFold {
    /// Tells whether an event may be news.
    pub(crate) fn concerns(data: &EventData) -> bool {
        is_step(data)
            || data.ends_turn()
            || data.is_about_session()
            || matches!(
                data,
                EventData::TurnStarted(_)
                    | EventData::ToolCallRequested(_)
                    | EventData::ToolCallResolved(_)
                    | EventData::ToolCallTimeout(_)
                    | EventData::ToolCallCanceled(_)
            )
    }

    /// Moves on by one event; `position` is that of the event, should it begin a run of this stream.
    pub(crate) fn apply(
        &mut self,
        event: &Event,
        (stream, position): (u64, u64),
    ) -> Option<RunNews> {
        if let Some(owner) = owner_in(event) {
            self.agent = owner.map(Arc::from);
        }
        match &event.data {
            EventData::TurnStarted(data) => {
                if self.open.iter().any(|open| open.row.turn == data.turn_id) {
                    return None;
                }
                let row = RunRow {
                    position,
                    stream,
                    turn: data.turn_id,
                    first: event.seq(),
                    agent: self.agent.clone(),
                    intent: intent(data).into(),
                    status: RunStatus::InProgress,
                    outcome: None,
                    waiting: Waiting::default(),
                    started_at: event.ts.timestamp_micros(),
                    ended_at: None,
                    turns: 0,
                };
                self.open.push(OpenRun {
                    row: row.clone(),
                    waits: Vec::new(),
                });
                Some(RunNews::Row(row))
            }
            EventData::SessionForked(_) => {
                self.open.clear();
                Some(RunNews::Forked)
            }
            EventData::SessionStarted(_) | EventData::SessionUpdated(_) => Some(RunNews::Owner),
            EventData::TurnCompleted(end) => self.end(end.turn_id, event),
            EventData::TurnFailed(end) => self.end(end.turn_id, event),
            EventData::TurnCancelled(end) => self.end(end.turn_id, event),
            _ => self.go_on(event),
        }
    }

    fn end(&mut self, turn: TurnId, event: &Event) -> Option<RunNews> {
        let at = self.open.iter().position(|open| open.row.turn == turn)?;
        let (status, outcome) = end_in(&event.data)?;
        let mut row = self.open.remove(at).row;
        (row.status, row.outcome) = (status, outcome);
        row.waiting = Waiting::default();
        row.ended_at = Some(event.ts.timestamp_micros());
        Some(RunNews::Row(row))
    }

    fn go_on(&mut self, event: &Event) -> Option<RunNews> {
        let turn = event.context.turn_id?;
        let mut open = self.open.iter_mut();
        let open = open.find(|open| open.row.turn == turn)?;
        let before = (open.row.turns, open.row.waiting);
        open.row.turns += u64::from(is_step(&event.data));
        if let Some(change) = wait_change(event) {
            open.waits.retain(|(exec_id, _)| *exec_id != change.exec_id);
            let opened = change.wait.opens();
            open.waits.extend(opened.map(|kind| (change.exec_id, kind)));
            open.row.waiting = Waiting::of(&open.waits);
        }
        let is_news = before != (open.row.turns, open.row.waiting);
        is_news.then(|| RunNews::Row(open.row.clone()))
    }
}

/// Puts together runs of several kinds or states: the newest first, as many as are wanted.
pub(crate) fn newest_rows(mut rows: Vec<RunRow>, limit: usize) -> Vec<RunRow> {
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.position));
    rows.truncate(limit);
    rows
}
