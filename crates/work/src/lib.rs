//! Work that nobody sits beside: tasks in a queue, automations by a schedule, fleets of workers.
//!
//! Everything is a record in a stream of the journal before it happens, with rows that hold the state that follows. There is no
//! transport here and no runtime: the host implements [`Hands`], which carries one attempt out as a turn of a thread, and
//! time is a [`Clock`]. The page of the crate says how it fits together.

#![warn(missing_docs)]

pub mod automations;
mod clock;
mod error;
pub mod fleet;
mod hands;
mod kept;
mod ledger;
pub mod schedule;
mod spec;
pub mod tasks;
mod turns;

/// Kinds of rows about jobs that have ended, with their indexes. A store with too many bytes removes the oldest of them before
/// the history of any thread.
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
pub use clock::{Clock, SystemClock};
pub use error::WorkError;
pub use fleet::{Fleet, FleetPlan, FleetRun, FleetRunId, FleetSettings};
pub use hands::{
    ActiveHold, Assignment, EndedTurn, Hands, HeldTurn, Hold, HoldCause, TurnEnd, TurnOutcome,
    WorkerSlot,
};
pub use ledger::WorkStore;
pub use spec::WorkSpec;
pub use tasks::{
    NewTask, Task, TaskCounts, TaskId, TaskPage, TaskSettings, TaskState, TaskStatus, Tasks,
};
