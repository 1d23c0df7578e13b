//! Operations on jobs: tasks, automations, fleet runs, and agents that models start.

pub(crate) mod agent_control;
pub(crate) mod agent_runs;
pub(crate) mod automations;
pub(crate) mod fleet;
pub(crate) mod runs;
pub(crate) mod tasks;
