//! `/btw`: a side question that leaves no trace in the conversation.

use async_trait::async_trait;

use crate::capabilities::Capability;
use crate::command::{
    CommandArg, CommandDescriptor, CommandExecutionContext, CommandResult, CommandSource,
    ExecuteCommandRequest,
};
use crate::command_host::SessionCompletionRequest;
use crate::error::{AgentLoopError, Result};
use crate::message::Message;

/// Answers a side question from the conversation, without tools, and stores nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct BtwCapability;

#[async_trait]
impl Capability for BtwCapability {
    constants!(
        "btw",
        "By the way",
        "Answers a side question without adding it to the conversation."
    );
    fn commands(&self) -> Vec<CommandDescriptor> {
        vec![CommandDescriptor {
            name: "btw".to_owned(),
            description: "Ask a side question; neither question nor answer is stored.".to_owned(),
            source: CommandSource::System,
            args: vec![CommandArg {
                name: "question".to_owned(),
                description: "What you want to know.".to_owned(),
                required: true,
                suggestions: Vec::new(),
            }],
        }]
    }
    async fn execute_command(
        &self,
        request: &ExecuteCommandRequest,
        ctx: &CommandExecutionContext,
    ) -> Result<CommandResult> {
        let question = request
            .arguments
            .as_deref()
            .map(str::trim)
            .unwrap_or_default();
        if question.is_empty() {
            return Err(AgentLoopError::config(
                "/btw requires a question, such as `/btw what are you doing?`",
            ));
        }
        let completion = ctx
            .host
            .completion(SessionCompletionRequest {
                messages: vec![Message::user(question)],
                controls: request.controls.clone(),
                ..SessionCompletionRequest::default()
            })
            .await
            .map_err(|error| error.0)?;
        Ok(CommandResult {
            success: true,
            message: completion.text,
            error_code: None,
            error_fields: None,
        })
    }
}
