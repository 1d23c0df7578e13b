//! Turns and items: what a person sees of a session.
//!
//! The journal holds events; people see turns, and in a turn its items: what was said, thought and done. Both views
//! follow from the events alone. [`change`] reads one event and says what it changes for people, at most one thing,
//! so that any reader can start at any place of a journal. [`TurnLog`] folds events into the turns and items of a
//! session. An item is identified by the uuid of its message or step, so that no fold has to invent a name.

mod change;
mod item;
mod log;
mod output;
mod step;
mod text;
mod turn;

pub use change::{Change, SessionChange, Wait, WaitChange, WaitKind, change, wait_change};
pub use item::{Item, ItemBody, ItemKind, ItemStatus, ToolItem};
pub use log::TurnLog;
pub use step::{ItemStep, item_step};
pub use text::{SUMMARY_CHARS, input_summary, plain_text};
pub use turn::{TurnStatus, TurnView, UnapprovedCalls};
