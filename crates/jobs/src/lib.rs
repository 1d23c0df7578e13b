//! Unattended work: tasks in a queue, automations with a schedule, fleets of workers.
//!
//! Every change is a record in a stream of the journal before it takes effect, with rows that contain the resulting state. This
//! crate contains no transport and no runtime: the host implements [`TurnRunner`], which runs one attempt as a turn of a thread, and
//! time comes from a [`Clock`](windlass_core::Clock). The crate's README explains how the parts fit together.

#![warn(missing_docs)]

mod attempt;
pub mod automations;
mod dispatch;
mod error;
pub mod fleet;
mod ledger;
mod retention;
mod rows;
pub mod schedule;
mod spec;
pub mod tasks;
mod turn_runner;

/// Row kinds of ended jobs and their indexes. A store over its size limit removes the oldest of them before the history of any
/// thread.
pub const EXPENDABLE_RECORDS: &[&str] = &[
    tasks::EXPENDABLE[0],
    tasks::EXPENDABLE[1],
    automations::EXPENDABLE[0],
    automations::EXPENDABLE[1],
    fleet::EXPENDABLE[0],
    fleet::EXPENDABLE[1],
    fleet::EXPENDABLE[2],
];

pub use automations::{
    Automation, AutomationId, AutomationRun, AutomationSettings, AutomationStatus, Automations,
    MissedRuns, Plan, RunWithTask,
};
pub use error::JobError;
pub use fleet::{Fleet, FleetPlan, FleetRun, FleetRunId, FleetSettings};
pub use rows::JobStore;
pub use spec::JobSpec;
pub use tasks::{
    NewTask, Task, TaskCounts, TaskId, TaskPage, TaskSettings, TaskState, TaskStatus, Tasks,
};
pub use turn_runner::{
    ActiveHold, Assignment, EndedTurn, HeldTurn, Hold, HoldCause, TurnEnd, TurnOutcome, TurnRunner,
    WorkerSlot,
};
