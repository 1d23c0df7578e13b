//! The system prompt of a turn.

use std::fmt::Write;

use windlass_core::capabilities::{ResolvedCapability, SystemPromptContext};
use windlass_core::config_layer::AgentConfigOverlay;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::typed_id::SessionId;

use super::Contributions;
use crate::inner::Inner;
use crate::panics::catch_panic_async;

/// Inputs of a prompt apart from records and capabilities.
pub(super) struct PromptInputs<'a> {
    pub(super) locale: Option<&'a str>,
    pub(super) model: &'a str,
    /// The description of the environment, then its instructions.
    pub(super) environment: [Option<&'a str>; 2],
}

/// Joins the contributions of capabilities and the prompts of the layers.
pub(super) async fn assemble(
    inner: &Inner,
    session_id: SessionId,
    overlay: &AgentConfigOverlay,
    contributions: &Contributions,
    inputs: PromptInputs<'_>,
) -> Result<String> {
    let context = SystemPromptContext {
        session_id,
        locale: inputs.locale.map(str::to_owned),
        file_store: Some(inner.files.clone()),
        model: Some(inputs.model.to_owned()),
    };
    let mut blocks = String::new();
    for resolved in &contributions.capabilities {
        if let Some(text) = contribution(resolved, &context).await? {
            let id = resolved.capability.id();
            let _ = write!(
                blocks,
                "<capability id=\"{id}\">\n{}\n</capability>\n\n",
                text.trim()
            );
        }
    }
    for text in inputs.environment.into_iter().flatten() {
        let _ = write!(blocks, "<environment>\n{}\n</environment>\n\n", text.trim());
    }
    let own = overlay.system_prompt.as_deref().unwrap_or_default();
    let mut prompt = String::new();
    if let Some(locale) = inputs.locale {
        let _ = write!(
            prompt,
            "<locale preference=\"{locale}\">\nAnswer in this locale unless the user asks otherwise.\n</locale>\n\n"
        );
    }
    prompt.push_str(&blocks);
    match (blocks.is_empty(), own.is_empty()) {
        (_, true) => prompt.truncate(prompt.trim_end().len()),
        (true, false) => prompt.push_str(own),
        (false, false) => {
            let _ = write!(prompt, "<system-prompt>\n{own}\n</system-prompt>");
        }
    }
    Ok(prompt)
}

async fn contribution(
    resolved: &ResolvedCapability,
    context: &SystemPromptContext,
) -> Result<Option<String>> {
    let ResolvedCapability { capability, config } = resolved;
    let asking = capability.system_prompt_contribution_with_config(context, config);
    let text = catch_panic_async(asking).await.ok_or_else(|| {
        AgentLoopError::config(format!(
            "capability `{}` panicked while writing its part of the prompt",
            capability.id()
        ))
    })?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}
