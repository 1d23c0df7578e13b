//! Kills a working runtime repeatedly and checks the data that it leaves.
//!
//! The [`child`] works on sessions with every kind of step, with a journal on disk. The [`harness`] starts it, kills it with SIGKILL at random
//! moments and at named [`faults`], and after each kill [`check`]s the journal and the tools' log of their effects. Everything is derived from one
//! seed, so that a failure is reproducible.
//!
//! Other tests kill the daemon itself: [`backends`] while an external agent executes a turn; [`undo`] while a turn changes files, and while the
//! changes are undone; [`tasks`] while its workers run tasks; [`fleet`] while a run of many tasks is in progress; [`config`] with a changing
//! configuration under both.
//!
//! [`children`] kills a process in which twenty agents of one turn work under a shared budget.
//!
//! Readers of the [`feed`] continue from their cursors while the writer is killed. The [`soak`] runs such a runtime without kills and watches its
//! resource usage. Next to honest sessions, [`hostile`] ones try everything that a model can do to escape its sandbox or crash the process.

pub mod backends;
pub mod check;
pub mod child;
pub mod children;
pub mod config;
mod daemon;
pub mod faults;
pub mod feed;
pub mod fleet;
pub mod harness;
pub mod hostile;
pub mod inspect;
mod model;
pub mod random;
mod restarts;
mod series;
pub mod soak;
pub mod tasks;
mod tools;
pub mod undo;
mod usage;
