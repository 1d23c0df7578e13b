//! The open runs and their owners. Only open runs are in memory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::runs::RunStatus;
use windlass_store::StoredRun;

use crate::caller::ClientId;

/// The connection that may write to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A live connection.
    Connection(ClientId),
    /// The connection is lost, and the run waits until the deadline.
    Waiting { until: Duration },
}

#[derive(Debug, Clone)]
pub(crate) struct OpenRun {
    pub(crate) run: StoredRun,
    pub(crate) holder: Holder,
    /// The client ID that the run was resumed from.
    pub(crate) resumed_from: Option<String>,
}

#[derive(Debug, Default)]
struct ConnectionRuns {
    runs: HashSet<Arc<str>>,
    current: Option<Arc<str>>,
}

/// The open runs by ID, by connection and by deadline.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    runs: HashMap<Arc<str>, OpenRun>,
    connections: HashMap<ClientId, ConnectionRuns>,
    deadlines: BTreeSet<(Duration, Arc<str>)>,
}

impl OpenRuns {
    pub(crate) fn get(&self, run_id: &str) -> Option<&OpenRun> {
        self.runs.get(run_id)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn count_of(&self, client: &ClientId) -> usize {
        self.connections
            .get(client)
            .map_or(0, |connection| connection.runs.len())
    }

    /// Assigns a run to a holder and removes it from the previous one.
    pub(crate) fn assign(&mut self, run: StoredRun, holder: Holder) {
        let run_id: Arc<str> = run.summary.run_id.as_str().into();
        self.remove(&run_id);
        match &holder {
            Holder::Connection(client) => {
                let connection = self.connections.entry(client.clone()).or_default();
                connection.runs.insert(Arc::clone(&run_id));
            }
            Holder::Waiting { until } => {
                self.deadlines.insert((*until, Arc::clone(&run_id)));
            }
        }
        let open = OpenRun {
            run,
            holder,
            resumed_from: None,
        };
        self.runs.insert(run_id, open);
    }

    /// Updates a run. A run that has ended is removed.
    pub(crate) fn update(&mut self, run: StoredRun) {
        if run.summary.status != RunStatus::InProgress {
            self.remove(&run.summary.run_id);
            return;
        }
        // The stored state may be newer: responses of concurrent writers can arrive out of order.
        if let Some(open) = self.runs.get_mut(run.summary.run_id.as_str())
            && (run.epoch, run.head()) > (open.run.epoch, open.run.head())
        {
            open.run = run;
        }
    }

    pub(crate) fn remove(&mut self, run_id: &str) {
        let Some((run_id, open)) = self.runs.remove_entry(run_id) else {
            return;
        };
        match open.holder {
            Holder::Connection(client) => {
                if let Some(connection) = self.connections.get_mut(&client) {
                    connection.runs.remove(&run_id);
                    if connection.current.as_ref() == Some(&run_id) {
                        connection.current = None;
                    }
                }
            }
            Holder::Waiting { until } => {
                self.deadlines.remove(&(until, run_id));
            }
        }
    }

    /// Removes a run without a connection. A run resumed in the meantime stays.
    pub(crate) fn remove_waiting(&mut self, run_id: &str) {
        let open = self.runs.get(run_id);
        if open.is_some_and(|open| matches!(open.holder, Holder::Waiting { .. })) {
            self.remove(run_id);
        }
    }

    pub(crate) fn set_resumed_from(&mut self, run_id: &str, from: String) {
        if let Some(open) = self.runs.get_mut(run_id) {
            open.resumed_from = Some(from);
        }
    }

    pub(crate) fn set_current(&mut self, client: &ClientId, run_id: &str) {
        let connection = self.connections.entry(client.clone()).or_default();
        connection.current = Some(run_id.into());
    }

    pub(crate) fn current(&self, client: &ClientId) -> Option<Arc<str>> {
        self.connections.get(client)?.current.clone()
    }

    /// Marks the runs of a lost connection as waiting until the deadline.
    pub(crate) fn connection_lost(&mut self, client: &ClientId, until: Duration) {
        let Some(connection) = self.connections.remove(client) else {
            return;
        };
        for run_id in connection.runs {
            if let Some(open) = self.runs.get_mut(&run_id) {
                open.holder = Holder::Waiting { until };
                self.deadlines.insert((until, run_id));
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Returns the runs whose deadline has passed. They stay in the map until their end is recorded.
    pub(crate) fn expired(&self, now: Duration) -> Vec<StoredRun> {
        let over = self.deadlines.iter().take_while(|(until, _)| *until <= now);
        over.filter_map(|(_, run_id)| self.runs.get(run_id))
            .map(|open| open.run.clone())
            .collect()
    }
}
