//! Asking the user, and waiting for the answer.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::capabilities::Capability;
use crate::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints};

/// Lets the agent ask the user and wait for the answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct AskUserCapability;

impl Capability for AskUserCapability {
    constants!(
        "ask_user",
        "Ask the User",
        "Asks the user questions and waits for the answers.",
        "Conversation"
    );
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![Box::new(RequestUserInput)]
    }
}

struct RequestUserInput;

#[async_trait]
impl Tool for RequestUserInput {
    fn name(&self) -> &str {
        "request_user_input"
    }
    fn description(&self) -> &str {
        "Ask the user one or more questions and wait for the answers. Give options where the answer is a choice."
    }
    fn parameters_schema(&self) -> Value {
        let text = json!({ "type": "string" });
        let option = json!({
            "type": "object",
            "properties": { "label": text, "description": text },
            "required": ["label"]
        });
        let question = json!({
            "type": "object",
            "properties": {
                "id": text, "header": text, "question": text,
                "options": { "type": "array", "items": option },
                "allow_free_text": { "type": "boolean" },
                "multi_select": { "type": "boolean" }
            },
            "required": ["id", "question"]
        });
        json!({
            "type": "object",
            "properties": { "questions": { "type": "array", "items": question, "minItems": 1 } },
            "required": ["questions"]
        })
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default().with_side_effect_class(SideEffectClass::Idempotent)
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        let questions = arguments["questions"].as_array().into_iter().flatten();
        let questions: Vec<Value> = questions.map(complete).collect();
        ToolExecutionResult::UserInputRequired {
            request: json!({ "questions": questions }),
        }
    }
}

/// Fills in every field of a question, so that clients need no defaults.
fn complete(question: &Value) -> Value {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let flag = |name: &str| question[name].as_bool();
    let options: Vec<Value> = question["options"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|option| json!({ "label": text(option, "label"), "description": text(option, "description") }))
        .collect();
    let free_text = flag("allow_free_text").unwrap_or(options.is_empty());
    json!({
        "header": text(question, "header"),
        "id": text(question, "id"),
        "question": text(question, "question"),
        "options": options,
        "allow_free_text": free_text,
        "multi_select": flag("multi_select").unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_field_of_a_question_is_filled_in() {
        let asked = RequestUserInput
            .execute(json!({"questions": [{"id": "colour", "question": "Which?", "options": [{"label": "Red"}]}]}))
            .await;
        let ToolExecutionResult::UserInputRequired { request } = asked else {
            panic!("it asks");
        };
        assert_eq!(
            request,
            json!({"questions": [{"header": "", "id": "colour", "question": "Which?", "options": [{"label": "Red", "description": ""}], "allow_free_text": false, "multi_select": false}]})
        );
    }
}
