//! The short API: a conversation, closures as tools, answers as streams and as types.

mod answer_stream;
#[cfg(feature = "typed-tools")]
mod ask_for;
mod builder;
mod conversations;
mod error;
mod handle;
mod reply;
mod store;
#[cfg(test)]
mod tests;
mod tool_fn;
mod tool_set;
#[cfg(feature = "typed-tools")]
mod typed_tool;

pub use answer_stream::AnswerStream;
pub use builder::ConversationBuilder;
pub use conversations::Conversations;
pub use error::ConversationError;
pub use handle::Conversation;
pub use reply::{Need, PendingCall, Reply};
pub use tool_fn::{FnTool, ToolFnError, client_tool, tool_fn};
pub use tool_set::ToolSet;
#[cfg(feature = "typed-tools")]
pub use typed_tool::{output_schema_of, typed_tool, typed_tool_with_context};
