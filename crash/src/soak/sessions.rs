//! Sessions that are created, run turns of all kinds, become idle, return, and are removed.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_runtime::{EventStream, InProcessRuntime, SessionBuilder};

use crate::child::{answer, harness_id, with_tools};
use crate::random::Random;

/// Maximum idle sessions; the one idle longest is removed.
const MAX_IDLE: usize = 48;
/// Retention may remove the end of a turn before a reader sees it, so readers also poll.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// A turn that takes longer hangs.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);
/// Larger than a row: such an input becomes a blob.
const BIG: usize = 40_000;

/// Activity of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Number of created sessions.
    pub created: u64,
    /// Number of removed sessions.
    pub removed: u64,
    /// Inputs whose turns ended.
    pub turns: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.created += other.created;
        self.removed += other.removed;
        self.turns += other.turns;
    }
}

/// The kind of activity in a session.
enum Kind {
    /// An input, with tools or without.
    Ordinary,
    /// An input that is too big for a row.
    Big,
    /// Two inputs, of which the second waits for the first.
    Queued,
    /// An input whose turn is cancelled while it runs.
    Cancelled,
    /// A caller that disconnects.
    Abandoned,
}

impl Kind {
    fn any(random: &mut Random) -> Self {
        match random.below(10) {
            0 => Self::Big,
            1 => Self::Queued,
            2 => Self::Cancelled,
            3 => Self::Abandoned,
            _ => Self::Ordinary,
        }
    }
}

/// The runtime and its idle sessions.
pub(super) struct SessionPool {
    runtime: InProcessRuntime,
    idle: Mutex<VecDeque<SessionId>>,
}

impl SessionPool {
    pub(super) fn new(runtime: InProcessRuntime) -> Self {
        Self {
            runtime,
            idle: Mutex::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<SessionId>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one session after the other until the deadline.
    pub(super) async fn run_sessions(&self, seed: u64, until: Instant) -> Result<Counts> {
        let mut random = Random::new(seed);
        let mut counts = Counts::default();
        while Instant::now() < until {
            let back = (random.below(3) == 0).then(|| self.idle().pop_front());
            let id = match back.flatten() {
                Some(id) => id,
                None => self.create(&mut counts).await?,
            };
            for _ in 0..=random.below(5) {
                self.turn(id, &mut random, &mut counts).await?;
            }
            self.leave(id, &mut random, &mut counts).await?;
        }
        Ok(counts)
    }

    async fn create(&self, counts: &mut Counts) -> Result<SessionId> {
        let session = SessionBuilder::new(harness_id()).build();
        let id = session.id;
        self.runtime.add_session(session).await?;
        counts.created += 1;
        Ok(id)
    }

    /// Makes a session idle, or removes it, sometimes during a turn.
    async fn leave(&self, id: SessionId, random: &mut Random, counts: &mut Counts) -> Result<()> {
        let gone = match random.below(4) {
            0 => Some(id),
            1 => {
                let input = with_tools(random, "last".to_owned());
                self.runtime.submit(id, input.as_str()).await?;
                Some(id)
            }
            _ => {
                let mut idle = self.idle();
                idle.push_back(id);
                (idle.len() > MAX_IDLE).then(|| idle.pop_front()).flatten()
            }
        };
        if let Some(gone) = gone {
            self.runtime.remove_session(gone).await?;
            counts.removed += 1;
        }
        Ok(())
    }

    async fn turn(&self, id: SessionId, random: &mut Random, counts: &mut Counts) -> Result<()> {
        let runtime = &self.runtime;
        let mut events = runtime.subscribe(id).await?;
        let input = with_tools(random, counts.turns.to_string());
        let soon = Duration::from_millis(random.below(15));
        let mut open = HashSet::new();
        match Kind::any(random) {
            Kind::Ordinary => drop(open.insert(self.submit(id, input).await?)),
            Kind::Big => drop(open.insert(self.submit(id, "b".repeat(BIG)).await?)),
            Kind::Queued => {
                open.insert(self.submit(id, input).await?);
                // It is refused if the first one already waits for an answer.
                open.extend(self.submit(id, "another".to_owned()).await.ok());
            }
            Kind::Cancelled => {
                open.insert(self.submit(id, input).await?);
                tokio::time::sleep(soon).await;
                // It may have ended before.
                let _ = runtime.cancel_turn(id).await;
            }
            Kind::Abandoned => drop(timeout(soon, runtime.run_text_turn(id, input)).await),
        }
        counts.turns += open.len().max(1) as u64;
        self.follow(id, &mut events, open).await
    }

    async fn submit(&self, id: SessionId, input: String) -> Result<TurnId> {
        Ok(self.runtime.submit(id, input).await?.turn_id())
    }

    /// Answers waiting calls until some turns have ended or, if their number is unknown, until there is no more activity.
    async fn follow(
        &self,
        id: SessionId,
        events: &mut EventStream,
        mut open: HashSet<TurnId>,
    ) -> Result<()> {
        let since = Instant::now();
        while since.elapsed() < TURN_TIMEOUT {
            let Ok(event) = timeout(POLL_INTERVAL, events.next()).await else {
                if self.is_idle(id).await? {
                    return Ok(());
                }
                continue;
            };
            let broke_off = || AgentLoopError::event("the events of a session broke off");
            let event = event.ok_or_else(broke_off)?;
            answer(&self.runtime, id, &event).await;
            if let Some(turn) = event.context.turn_id
                && event.data.ends_turn()
                && open.remove(&turn)
                && open.is_empty()
            {
                return Ok(());
            }
        }
        Err(AgentLoopError::event(format!("a turn of {id} hangs")))
    }

    async fn is_idle(&self, id: SessionId) -> Result<bool> {
        let status = self.runtime.session(id).await?.status;
        Ok(matches!(
            status,
            SessionStatus::Idle | SessionStatus::Started
        ))
    }
}
