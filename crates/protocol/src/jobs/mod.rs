//! Tasks, automations, fleet runs and agent runs.

pub mod agent_runs;
pub mod automations;
pub mod fleet;
pub mod tasks;
