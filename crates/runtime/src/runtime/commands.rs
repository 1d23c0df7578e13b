//! Slash commands of capabilities.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::capabilities::Capability;
use windlass_core::command::{
    CommandDescriptor, CommandExecutionContext, CommandResult, ExecuteCommandRequest,
};
use windlass_core::command_host::{
    CommandHost, CommandTurnContext, SessionCompletion, SessionCompletionError,
    SessionCompletionRequest,
};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::history::History;
use windlass_core::llm_driver_registry::LlmRequest;
use windlass_core::typed_id::SessionId;

use super::{InProcessRuntime, last_controls, to_messages};
use crate::inner::Inner;
use crate::steps::side_call;
use crate::turn_context::{
    AssembledContext, ContextRequest, Contributions, SessionRecords, assemble, guarded,
};

impl InProcessRuntime {
    /// Lists the commands of a session's capabilities; of two with the same name, the first is listed.
    pub async fn list_commands(&self, session_id: SessionId) -> Result<Vec<CommandDescriptor>> {
        let mut commands: Vec<CommandDescriptor> = Vec::new();
        for capability in self.capabilities(session_id).await? {
            for command in guarded(capability.as_ref(), || capability.commands())? {
                if !commands.iter().any(|known| known.name == command.name) {
                    commands.push(command);
                }
            }
        }
        Ok(commands)
    }

    /// Runs a command of the first capability that declares it.
    pub async fn execute_command(
        &self,
        session_id: SessionId,
        request: ExecuteCommandRequest,
    ) -> Result<CommandResult> {
        let owner = self.owner_of(session_id, &request.name).await?;
        let host = Arc::new(SessionHost {
            inner: Arc::clone(&self.inner),
            session_id,
        });
        let context = CommandExecutionContext { session_id, host };
        // Runs in its own task, so that a panic only fails the command.
        let name = request.name.clone();
        let running = tokio::spawn(async move { owner.execute_command(&request, &context).await });
        running
            .await
            .unwrap_or_else(|_| Err(AgentLoopError::tool(format!("command /{name} panicked"))))
    }

    async fn owner_of(&self, session_id: SessionId, name: &str) -> Result<Arc<dyn Capability>> {
        for capability in self.capabilities(session_id).await? {
            let commands = guarded(capability.as_ref(), || capability.commands())?;
            if commands.iter().any(|command| command.name == name) {
                return Ok(capability);
            }
        }
        Err(AgentLoopError::config(format!(
            "no capability declares command /{name}"
        )))
    }

    async fn capabilities(&self, session_id: SessionId) -> Result<Vec<Arc<dyn Capability>>> {
        let records = SessionRecords::load(&self.inner, session_id).await?;
        let contributions = Contributions::collect(&self.inner, &records.overlay, "")?;
        Ok(contributions
            .capabilities
            .into_iter()
            .map(|resolved| resolved.capability)
            .collect())
    }
}

/// A command's access to its session.
struct SessionHost {
    inner: Arc<Inner>,
    session_id: SessionId,
}

impl SessionHost {
    async fn assemble(
        &self,
        request: &SessionCompletionRequest,
    ) -> Result<(History, AssembledContext)> {
        let history = self.inner.history(self.session_id).await?;
        let controls = request.controls.clone();
        let context_request = ContextRequest {
            controls: controls.or_else(|| last_controls(&history)),
            ..ContextRequest::default()
        };
        let assembled = assemble(&self.inner, self.session_id, context_request).await?;
        Ok((history, assembled))
    }

    async fn complete(&self, request: SessionCompletionRequest) -> Result<SessionCompletion> {
        let (mut history, AssembledContext { context, .. }) = self.assemble(&request).await?;
        if request.without_history {
            history = History::default();
        }
        for message in request.messages {
            history.push(Arc::new(message));
        }
        let model_request = LlmRequest {
            session_id: self.session_id,
            turn_id: None,
            exec_id: None,
            system_prompt: request
                .system_prompt
                .map_or(context.system_prompt, Into::into),
            history,
            config: Arc::new(context.offer.config_without_tools()),
        };
        let response =
            side_call::complete(&self.inner, context.driver.as_ref(), model_request).await?;
        Ok(SessionCompletion {
            text: response.text,
            usage: response.metadata.usage(),
        })
    }
}

#[async_trait]
impl CommandHost for SessionHost {
    async fn turn_context(&self) -> Result<CommandTurnContext> {
        let (history, assembled) = self.assemble(&SessionCompletionRequest::default()).await?;
        let AssembledContext {
            records, context, ..
        } = assembled;
        Ok(CommandTurnContext {
            session: records.session,
            messages: to_messages(history.iter()),
            system_prompt: context.system_prompt.to_string(),
            model: context.model,
            resolved_locale: context.locale,
        })
    }

    async fn completion(
        &self,
        request: SessionCompletionRequest,
    ) -> std::result::Result<SessionCompletion, SessionCompletionError> {
        Ok(self.complete(request).await?)
    }
}
