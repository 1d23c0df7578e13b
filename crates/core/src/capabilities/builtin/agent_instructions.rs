//! The session's own `AGENTS.md`, read into the prompt of every turn.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_macros::Defaults;

use super::session_tool::config;
use crate::bounds::prefix;
use crate::capabilities::{Capability, SystemPromptContext};

const PATH: &str = "/AGENTS.md";

/// Puts `/AGENTS.md` of the session's files into the prompt, as it is when the turn begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentInstructionsCapability;

#[derive(Deserialize, Defaults)]
#[serde(default, deny_unknown_fields)]
struct Config {
    #[default(32 * 1024)]
    max_bytes: usize,
}

#[async_trait]
impl Capability for AgentInstructionsCapability {
    constants!(
        "agent_instructions",
        "Agent Instructions",
        "Reads instructions from AGENTS.md in the session's files, every turn.",
        "Files"
    );
    fn config_schema(&self) -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "max_bytes": { "type": "integer", "minimum": 1, "description": "The maximum number of bytes to read" }
            },
            "additionalProperties": false
        }))
    }
    fn validate_config(&self, value: &Value) -> Result<(), String> {
        match config::<Config>(value)?.max_bytes {
            0 => Err("`max_bytes` must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }
    async fn system_prompt_contribution(&self, ctx: &SystemPromptContext) -> Option<String> {
        self.system_prompt_contribution_with_config(ctx, &Value::Null)
            .await
    }
    async fn system_prompt_contribution_with_config(
        &self,
        ctx: &SystemPromptContext,
        value: &Value,
    ) -> Option<String> {
        let limit = config::<Config>(value).unwrap_or_default().max_bytes;
        let read = ctx
            .file_store
            .as_ref()?
            .read_file(ctx.session_id, PATH)
            .await;
        let Ok(file) = read else {
            // The agent must know that its instructions are missing, instead of silently working without them.
            return Some(format!("The instructions in {PATH} could not be read."));
        };
        let file = file.filter(|file| file.encoding == "text")?;
        let text = file.content.unwrap_or_default();
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let shown = prefix(text, limit);
        let mut prompt = format!("Instructions from {PATH}:\n\n{shown}");
        if shown.len() < text.len() {
            let (shown, all) = (shown.len(), text.len());
            prompt.push_str(&format!(
                "\n\n[{PATH} is cut here: {shown} of {all} bytes are shown]"
            ));
        }
        Some(prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::builtin::testing::FakeFiles;
    use crate::typed_id::SessionId;

    async fn prompt(files: &[(&str, &str)], config: Value) -> Option<String> {
        let context = SystemPromptContext {
            session_id: SessionId::new(),
            locale: None,
            file_store: Some(FakeFiles::new(files)),
            model: None,
        };
        AgentInstructionsCapability
            .system_prompt_contribution_with_config(&context, &config)
            .await
    }

    #[tokio::test]
    async fn file_is_added_to_the_prompt_and_truncated_at_the_limit() {
        let whole = prompt(&[("/AGENTS.md", "Use tabs.\n")], json!({})).await;
        assert_eq!(whole.unwrap(), "Instructions from /AGENTS.md:\n\nUse tabs.");
        let cut = prompt(&[("/AGENTS.md", "aéb")], json!({"max_bytes": 2})).await;
        assert_eq!(
            cut.unwrap(),
            "Instructions from /AGENTS.md:\n\na\n\n[/AGENTS.md is cut here: 1 of 4 bytes are shown]"
        );
    }

    #[tokio::test]
    async fn missing_or_blank_file_adds_nothing() {
        for files in [&[][..], &[("/AGENTS.md", " \n")], &[("/AGENTS.md/x", "a")]] {
            assert_eq!(prompt(files, Value::Null).await, None);
        }
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let check = |config| AgentInstructionsCapability.validate_config(&config);
        assert!(check(json!({"max_bytes": 10})).is_ok());
        assert!(
            check(json!({"max_bytes": 0}))
                .unwrap_err()
                .contains("max_bytes")
        );
        assert!(check(json!({"max": 1})).unwrap_err().contains("max"));
        assert!(check(json!("x")).is_err());
    }
}
