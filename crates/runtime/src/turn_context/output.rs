//! The schema that the final answer of a turn must match.

use std::sync::Arc;

use serde_json::Value;
use windlass_core::bounds::{is_shallow, shortened};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::OutputSchema;
use windlass_core::turn_request::{self, TurnRequest};

use crate::inner::Inner;
use crate::json_in_text;

/// Maximum number of errors of an answer that the model receives.
const MAX_ERRORS: usize = 10;
/// Maximum length of an error's text, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// The schema of a turn's final answer, and the prompt without it.
pub(crate) struct TurnOutput {
    pub(crate) schema: OutputSchema,
    /// The system prompt for calls that have another kind of answer, such as summaries.
    pub(crate) plain_prompt: Arc<str>,
}

impl TurnOutput {
    /// Takes the schema from the turn's request and states it in the system prompt. That costs tokens if the provider enforces the schema too, but
    /// the prompt does not depend on the provider, and every model knows the schema.
    pub(super) fn take(
        request: &mut TurnRequest,
        system_prompt: &mut String,
    ) -> Result<Option<Self>> {
        let Some(output) = request.output_schema.take() else {
            return Ok(None);
        };
        if let Some(agent) = &request.backend {
            return Err(AgentLoopError::UnsupportedInput {
                model: agent.clone(),
                input: "output schemas",
            });
        }
        check_output_schema(&output.schema).map_err(AgentLoopError::config)?;
        let plain_prompt = Arc::from(system_prompt.as_str());
        let gap = if system_prompt.is_empty() { "" } else { "\n\n" };
        let schema = &output.schema;
        system_prompt.push_str(&format!(
            "{gap}<output-schema>\nYour final answer must be a single JSON value that matches this JSON Schema, without any other text and \
             without a code fence. Calls of tools before it are not affected.\n{schema}\n</output-schema>"
        ));
        Ok(Some(Self {
            schema: output,
            plain_prompt,
        }))
    }

    /// Returns the mismatches of an answer; empty if it matches. The answer's own values are not repeated.
    pub(crate) fn mismatch(&self, inner: &Inner, text: &str) -> Vec<String> {
        let value = match json_in_text::parse::<Value>(text) {
            Ok(value) => value,
            Err(reason) => return vec![format!("it is not JSON: {reason}")],
        };
        if !is_shallow(&value) {
            return vec!["it is nested too deep".to_owned()];
        }
        let errors = inner
            .arguments
            .violations(&self.schema.schema, &value, MAX_ERRORS);
        let errors = errors.iter();
        errors.map(|it| shortened(it, MAX_ERROR_CHARS)).collect()
    }
}

/// Checks a schema for the final answer of a turn. Without the feature `schema` only its bounds are checked; of an answer, only the required names
/// and the types of properties are checked.
///
/// # Errors
/// A description of the problem with the schema.
pub fn check_output_schema(schema: &Value) -> std::result::Result<(), String> {
    turn_request::check_output_schema(schema).map_err(|error| error.to_string())?;
    #[cfg(feature = "schema")]
    crate::steps::arguments::check_schema(schema)
        .map_err(|error| format!("the output schema is not valid: {error}"))?;
    Ok(())
}
