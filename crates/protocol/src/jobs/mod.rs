//! Tasks, automations, fleet runs, agent runs and the list of all runs.

pub mod agent_runs;
pub mod automations;
pub mod fleet;
pub mod runs;
pub mod tasks;
