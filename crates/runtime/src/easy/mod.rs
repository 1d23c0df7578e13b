//! The pleasant way in: a conversation, closures as tools, answers as streams and as types.

mod answer_stream;
#[cfg(feature = "typed-tools")]
mod ask_for;
mod builder;
mod conversation;
mod conversations;
mod error;
#[cfg(feature = "typed-tools")]
mod json_in_text;
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
pub use conversation::Conversation;
pub use conversations::Conversations;
pub use error::ConversationError;
pub use reply::{Need, PendingCall, Reply};
pub use tool_fn::{FnTool, ToolFnError, client_tool, tool_fn};
pub use tool_set::ToolSet;
#[cfg(feature = "typed-tools")]
pub use typed_tool::{typed_tool, typed_tool_with_context};
