//! Errors that end a conversation's turn.

use windlass_core::error::AgentLoopError;

use crate::turn_result::TurnResult;

/// Why a conversation gave no answer.
///
/// ```
/// # use windlass_core::llmsim_driver::LlmSimConfig;
/// use windlass_runtime::{Conversation, ConversationError};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let broken = LlmSimConfig::error("out of order");
/// let mut chat = Conversation::builder().simulator(broken).start().await?;
/// match chat.say("Hi").await {
///     Ok(reply) => println!("{reply}"),
///     Err(ConversationError::Stopped(turn)) => assert!(turn.error.is_some()),
///     Err(other) => return Err(other),
/// }
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// The runtime refused the request or failed.
    #[error(transparent)]
    Runtime(#[from] AgentLoopError),
    /// The data directory cannot be used.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Store(#[from] windlass_store::sqlite::SqliteError),
    /// The turn ended without an answer; the result contains the text so far.
    #[error("the turn stopped without an answer: {}", stop_reason(.0))]
    Stopped(Box<TurnResult>),
    /// The answer does not match the requested type, even after a second attempt.
    #[cfg(feature = "typed-tools")]
    #[error("the answer cannot be read as {expected}: {reason}")]
    Unreadable {
        /// Name of the requested type.
        expected: &'static str,
        /// Description of the mismatch.
        reason: String,
        /// The model's last answer.
        text: String,
    },
}

fn stop_reason(turn: &TurnResult) -> String {
    match &turn.error {
        Some(error) => error.clone(),
        None => format!("{:?}", turn.stop_reason),
    }
}
