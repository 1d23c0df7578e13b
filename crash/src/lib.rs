//! Kills a working runtime again and again, and checks what it left behind.
//!
//! The [`child`] works on sessions with every kind of step, on a journal on disk. The [`harness`] starts it, ends it
//! with SIGKILL at random moments and at named [`faults`], and after each death [`check`]s the journal and the log
//! that the tools keep of their effects. Everything follows from one seed, so that a failure can be repeated.
//!
//! With [`backends`] it is the daemon itself that is killed, while an agent of others carries a turn; with [`undo`] while a
//! turn changes files, and while that is taken back; with [`tasks`] while its workers carry tasks out; with [`fleet`] while a run of
//! many tasks is carried out; with [`config`] it is restarted with a changing configuration under both.
//!
//! With [`children`] it is a process in which twenty agents of one turn work under a budget that they share.
//!
//! Readers of the [`feed`] go on from their cursors beside a writer that is killed. The [`soak`] lets such a runtime live on without a death, and watches what it takes up. Beside the
//! honest ones, [`hostile`] sessions try all that a model can to get out of its place or to bring the process down.

pub mod backends;
pub mod chance;
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
pub mod look;
mod model;
mod restarts;
mod series;
pub mod soak;
pub mod tasks;
mod tools;
pub mod undo;
mod usage;
