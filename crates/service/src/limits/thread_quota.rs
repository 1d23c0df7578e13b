//! Limits on the number of threads: in total, and per agent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_store::queries::{Queries, ThreadQuery};

use crate::error::{ApiError, Result};

/// How long an agent at its limit is refused without a new count.
const FULL_FOR: Duration = Duration::from_secs(10);

/// The number of threads that may be created before a new count. Counting reads all threads, so it happens only once the quota of the previous count
/// is used up.
#[derive(Default)]
pub(crate) struct ThreadQuota {
    all: AtomicU64,
    of_agents: Mutex<HashMap<String, AgentQuota>>,
}

struct AgentQuota {
    left: usize,
    counted: Instant,
}

impl ThreadQuota {
    /// Takes quota for one thread.
    pub(crate) async fn reserve(&self, queries: &dyn Queries, limit: usize) -> Result<()> {
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

    /// Releases the quota of a removed thread of an agent. The total is counted again once it is used up.
    pub(crate) fn release_for_agent(&self, agent: &str) {
        if let Some(quota) = self.of_agents.lock().get_mut(agent) {
            quota.left += 1;
        }
    }

    /// Takes quota for one thread of an agent.
    pub(crate) async fn reserve_for_agent(
        &self,
        queries: &dyn Queries,
        agent: &str,
        limit: usize,
    ) -> Result<()> {
        let full = || ApiError::limit("threads of one agent", limit);
        if let Some(quota) = self.of_agents.lock().get_mut(agent) {
            if let Some(left) = quota.left.checked_sub(1) {
                quota.left = left;
                return Ok(());
            }
            if quota.counted.elapsed() < FULL_FOR {
                return Err(full());
            }
        }
        let query = ThreadQuery {
            agent: Some(agent.to_owned()),
            ..ThreadQuery::first(limit)
        };
        let count = queries.threads(query).await?.entries.len();
        let left = limit.saturating_sub(count);
        let quota = AgentQuota {
            left: left.saturating_sub(1),
            counted: Instant::now(),
        };
        self.of_agents.lock().insert(agent.to_owned(), quota);
        (left > 0).then_some(()).ok_or_else(full)
    }
}
