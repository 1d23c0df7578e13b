//! Results of a soak.

use std::fmt;
use std::time::Duration;

use super::sessions::Counts;
use crate::series::{self, UsageTable};
use crate::usage::Usage;

#[derive(Debug, Clone)]
pub struct SoakSummary {
    /// Seed of the run.
    pub seed: u64,
    /// How long it took.
    pub length: Duration,
    /// What the sessions did.
    pub counts: Counts,
    /// How many records retention removed.
    pub pruned: u64,
    /// Resource usage of the process, in order.
    pub samples: Vec<Usage>,
}

/// Memory that the process may use until it is warm: it is idle at 25 MB, and there are few concurrent sessions.
const WARM: u64 = 60_000_000;

impl SoakSummary {
    /// Returns an error with the metrics that still grow.
    pub fn verdict(&self) -> Result<(), String> {
        match self.counts.turns {
            0 => Err("no turn has ended".to_owned()),
            _ => series::verdict(&self.samples, WARM),
        }
    }
}

impl fmt::Display for SoakSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            length, samples, ..
        } = self;
        let length = *length;
        let warm = WARM;
        UsageTable {
            length,
            samples,
            warm,
        }
        .fmt(f)?;
        let Counts {
            created,
            removed,
            turns,
        } = self.counts;
        write!(
            f,
            "seed {}: {created} sessions were created, {removed} were removed, {turns} turns ended, {} records pruned",
            self.seed, self.pruned
        )
    }
}
