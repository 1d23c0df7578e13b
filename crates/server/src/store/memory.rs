//! What only the API knows, in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::Utc;
use windlass_protocol::Environment;
use windlass_store::{MemoryRunLog, RunLog};

use super::{KEPT_FOR, StoredAnswer, WireStore};
use crate::error::ApiError;

#[derive(Debug, Default)]
struct Tables {
    answers: HashMap<String, StoredAnswer>,
    environments: BTreeMap<String, Environment>,
}

/// Keeps everything in memory.
#[derive(Debug)]
pub struct MemoryWireStore {
    tables: Mutex<Tables>,
    max_answers: usize,
    runs: Arc<MemoryRunLog>,
}

impl MemoryWireStore {
    /// Makes an empty store for at most so many answers; the oldest make room.
    #[must_use]
    pub fn new(max_answers: usize) -> Self {
        Self {
            tables: Mutex::default(),
            max_answers: max_answers.max(1),
            runs: Arc::default(),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl WireStore for MemoryWireStore {
    fn runs(&self) -> Arc<dyn RunLog> {
        Arc::clone(&self.runs) as Arc<dyn RunLog>
    }

    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError> {
        let since = Utc::now() - KEPT_FOR;
        let tables = self.tables();
        Ok(tables
            .answers
            .get(key)
            .filter(|kept| kept.at > since)
            .cloned())
    }

    async fn keep_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError> {
        let mut tables = self.tables();
        let since = answer.at - KEPT_FOR;
        if tables.answers.len() >= self.max_answers {
            tables.answers.retain(|_, kept| kept.at > since);
        }
        if tables.answers.len() >= self.max_answers {
            let oldest = tables.answers.iter().min_by_key(|(_, kept)| kept.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                tables.answers.remove(&oldest);
            }
        }
        tables.answers.insert(key.to_owned(), answer);
        Ok(())
    }

    async fn environments(&self) -> Result<Vec<Environment>, ApiError> {
        Ok(self.tables().environments.values().cloned().collect())
    }

    async fn add_environment(&self, environment: Environment) -> Result<bool, ApiError> {
        use std::collections::btree_map::Entry::{Occupied, Vacant};
        match self.tables().environments.entry(environment.id.clone()) {
            Occupied(_) => Ok(false),
            Vacant(place) => {
                place.insert(environment);
                Ok(true)
            }
        }
    }

    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError> {
        Ok(self.tables().environments.remove(id).is_some())
    }
}
