//! Lets the model see when, by whom and with what marks a user message was sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::SecondsFormat;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::config;
use crate::capabilities::{Capability, ModelViewContext, ModelViewProvider};
use crate::message::{ContentPart, Message, MessageRole};

/// Puts a line with time, actor and metadata before each user message, for the model only.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageMetadataCapability;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    time: bool,
    actor: bool,
    metadata: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            time: true,
            actor: true,
            metadata: true,
        }
    }
}

impl Capability for MessageMetadataCapability {
    fn id(&self) -> &str {
        "message_metadata"
    }
    fn name(&self) -> &str {
        "Message Metadata"
    }
    fn description(&self) -> &str {
        "Shows the model when and by whom user messages were sent."
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn category(&self) -> Option<&str> {
        Some("Session")
    }
    fn system_prompt_addition(&self) -> Option<&str> {
        Some(
            "User messages begin with a line `[metadata {…}]` that the system adds: when the message was sent, by whom, and what else is known. It is not part of what the user wrote; do not write such lines yourself.",
        )
    }
    fn config_schema(&self) -> Option<Value> {
        let flag = |what: &str| json!({ "type": "boolean", "default": true, "description": what });
        Some(json!({
            "type": "object",
            "properties": {
                "time": flag("Whether to show when a message was sent"),
                "actor": flag("Whether to show who sent it"),
                "metadata": flag("Whether to show the metadata of the message")
            },
            "additionalProperties": false
        }))
    }
    fn validate_config(&self, value: &Value) -> Result<(), String> {
        config::<Config>(value).map(drop)
    }
    fn model_view_provider(&self) -> Option<Arc<dyn ModelViewProvider>> {
        Some(Arc::new(WithMetadata))
    }
}

struct WithMetadata;

impl ModelViewProvider for WithMetadata {
    fn apply_model_view(
        &self,
        mut messages: Vec<Message>,
        value: &Value,
        _ctx: &ModelViewContext<'_>,
    ) -> Vec<Message> {
        let config = config::<Config>(value).unwrap_or_default();
        for message in &mut messages {
            if message.role == MessageRole::User {
                mark(message, &config);
            }
        }
        messages
    }
}

fn mark(message: &mut Message, config: &Config) {
    let mut known = BTreeMap::new();
    if config.metadata {
        let metadata = message.metadata.iter().flatten();
        known.extend(metadata.map(|(name, value)| (name.clone(), value.clone())));
    }
    // The runtime's values override a sender's claims.
    if config.time {
        let time = message
            .created_at
            .to_rfc3339_opts(SecondsFormat::Secs, true);
        known.insert("time".to_owned(), json!(time));
    }
    if let Some(actor) = message.external_actor.as_ref().filter(|_| config.actor) {
        let name = actor.name.as_ref().unwrap_or(&actor.id);
        known.insert("from".to_owned(), json!(name));
    }
    if known.is_empty() {
        return;
    }
    let line = format!("[metadata {}]", json!(known));
    let text = message.content.iter_mut().find_map(|part| match part {
        ContentPart::Text(text) => Some(&mut text.text),
        _ => None,
    });
    match text {
        Some(text) => text.insert_str(0, &format!("{line}\n")),
        None => message.content.insert(0, ContentPart::text(line)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::capabilities::builtin::testing::THEN;
    use crate::message::ExternalActor;
    use crate::typed_id::SessionId;

    fn seen(message: Message, config: Value) -> Message {
        let view = MessageMetadataCapability.model_view_provider().unwrap();
        let context = ModelViewContext {
            session_id: SessionId::new(),
            model: "m",
            iteration: 1,
        };
        view.apply_model_view(vec![message], &config, &context)
            .remove(0)
    }

    fn user() -> Message {
        let actor = ExternalActor {
            id: "u7".into(),
            name: Some("Ada".into()),
            source: None,
        };
        Message {
            created_at: THEN,
            metadata: Some(HashMap::from([("ticket".to_owned(), json!("A-1"))])),
            external_actor: Some(actor),
            ..Message::user("Hi")
        }
    }

    #[test]
    fn a_user_message_begins_with_what_is_known_of_it() {
        let cases = [
            (
                json!({}),
                "[metadata {\"from\":\"Ada\",\"ticket\":\"A-1\",\"time\":\"1970-01-01T00:00:00Z\"}]\nHi",
            ),
            (
                json!({"actor": false, "metadata": false}),
                "[metadata {\"time\":\"1970-01-01T00:00:00Z\"}]\nHi",
            ),
            (
                json!({"actor": false, "metadata": false, "time": false}),
                "Hi",
            ),
        ];
        for (config, text) in cases {
            assert_eq!(seen(user(), config).text(), Some(text));
        }
    }

    #[test]
    fn other_messages_stay_and_a_picture_gets_a_line_of_its_own() {
        let agent = Message::assistant("Hello");
        assert_eq!(seen(agent.clone(), json!({})), agent);
        let picture = Message {
            content: vec![ContentPart::Image(
                crate::message::ImageContentPart::default(),
            )],
            ..user()
        };
        assert_eq!(seen(picture, json!({})).content.len(), 2);
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let told = MessageMetadataCapability.validate_config(&json!({"tim": true}));
        assert!(told.unwrap_err().contains("tim"));
    }
}
