//! The threads that the API shows: a directory of small digests, and folds of whole threads where they are asked for.

mod conversation;
mod digest;
mod directory;
mod entry;
mod folds;
mod keeping;
mod used;

pub(crate) use conversation::{Conversation, Told, conversation};
pub(crate) use directory::Directory;
pub(crate) use entry::Entry;
pub(crate) use folds::{Fold, Folds};
pub(crate) use keeping::DISTANCE;
pub(crate) use used::Ended;
