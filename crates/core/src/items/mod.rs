//! Turns and items: the user's view of a session.
//!
//! The journal contains events. Users see turns and their items: messages, reasoning and tool calls. Both views follow from the events alone.
//! [`change`] maps one event to at most one user-visible change, so that a reader can start anywhere in a journal. [`TurnLog`] folds events into the
//! turns and items of a session. An item is identified by the UUID of its message or step, so that a fold needs no generated names.

mod change;
mod item;
mod log;
mod output;
mod step;
mod text;
mod turn;

pub use change::{Change, SessionChange, WaitChange, WaitKind, WaitUpdate, change, wait_change};
pub(crate) use item::ANSWERED;
pub use item::{Item, ItemBody, ItemKind, ItemStatus, ToolItem};
pub use log::TurnLog;
pub use step::{ItemStep, item_step};
pub use text::{SUMMARY_CHARS, input_summary, plain_text};
pub use turn::{TurnStatus, TurnView, UnapprovedCalls};
