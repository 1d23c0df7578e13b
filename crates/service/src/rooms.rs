//! How many threads may still be made: in all, and by one agent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_store::queries::{Queries, ThreadQuery};

use crate::error::{ApiError, Result};

/// How long an agent that has no room left is told so without counting again.
const FULL_FOR: Duration = Duration::from_secs(10);

/// How many threads may be made before they are counted again. Counting looks at all of them, so that it is done only when as many
/// were made as there was room for the last time.
#[derive(Default)]
pub(crate) struct Rooms {
    all: AtomicU64,
    of_agents: Mutex<HashMap<String, OfAgent>>,
}

struct OfAgent {
    left: usize,
    counted: Instant,
}

impl Rooms {
    fn of_agents(&self) -> MutexGuard<'_, HashMap<String, OfAgent>> {
        self.of_agents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for one more thread.
    pub(crate) async fn take(&self, queries: &dyn Queries, limit: usize) -> Result<()> {
        let (relaxed, take) = (Ordering::Relaxed, |left: u64| left.checked_sub(1));
        if self.all.fetch_update(relaxed, relaxed, take).is_ok() {
            return Ok(());
        }
        let counts = queries.counts().await?;
        let left = (limit as u64).saturating_sub(counts.current + counts.archived);
        let left = take(left).ok_or_else(|| ApiError::limit("threads", limit))?;
        self.all.store(left, relaxed);
        Ok(())
    }

    /// Gives back the room of a thread of an agent that was removed. The room in all is counted anew where there is none.
    pub(crate) fn give_back(&self, agent: &str) {
        if let Some(room) = self.of_agents().get_mut(agent) {
            room.left += 1;
        }
    }

    /// Takes room for one more thread of an agent.
    pub(crate) async fn take_of(
        &self,
        queries: &dyn Queries,
        agent: &str,
        limit: usize,
    ) -> Result<()> {
        let full = || ApiError::limit("threads of one agent", limit);
        if let Some(room) = self.of_agents().get_mut(agent) {
            if let Some(left) = room.left.checked_sub(1) {
                room.left = left;
                return Ok(());
            }
            if room.counted.elapsed() < FULL_FOR {
                return Err(full());
            }
        }
        let query = ThreadQuery {
            agent: Some(agent.to_owned()),
            ..ThreadQuery::first(limit)
        };
        let there = queries.threads(query).await?.entries.len();
        let left = limit.saturating_sub(there);
        let room = OfAgent {
            left: left.saturating_sub(1),
            counted: Instant::now(),
        };
        self.of_agents().insert(agent.to_owned(), room);
        match left {
            0 => Err(full()),
            _ => Ok(()),
        }
    }
}
