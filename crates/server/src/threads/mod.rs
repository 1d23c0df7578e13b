//! The threads that the API shows: a directory of small digests, and folds of whole threads where they are asked for.

mod conversation;
mod digest;
mod directory;
mod folds;

pub(crate) use conversation::{Conversation, Told, conversation};
pub(crate) use digest::Ended;
pub(crate) use directory::{Directory, Entry};
pub(crate) use folds::{Fold, Folds};
