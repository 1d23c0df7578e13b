//! Shows the model the time, author and metadata of user messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::SecondsFormat;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_macros::Defaults;

use super::session_tool::config;
use crate::capabilities::{Capability, ModelViewContext, ModelViewProvider};
use crate::message::{ContentPart, Message, MessageRole};

/// Puts a line with time, actor and metadata before each user message, for the model only.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageMetadataCapability;

#[derive(Deserialize, Defaults)]
#[serde(default, deny_unknown_fields)]
struct Config {
    #[default(true)]
    time: bool,
    #[default(true)]
    actor: bool,
    #[default(true)]
    metadata: bool,
}

impl Capability for MessageMetadataCapability {
    constants!(
        "message_metadata",
        "Message Metadata",
        "Shows the model when and by whom user messages were sent.",
        "Session"
    );
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
        Some(Arc::new(MetadataLines))
    }
}

struct MetadataLines;

impl ModelViewProvider for MetadataLines {
    fn apply_model_view(
        &self,
        mut messages: Vec<Message>,
        value: &Value,
        _ctx: &ModelViewContext<'_>,
    ) -> Vec<Message> {
        let config = config::<Config>(value).unwrap_or_default();
        for message in &mut messages {
            if message.role == MessageRole::User {
                add_metadata_line(message, &config);
            }
        }
        messages
    }
}

fn add_metadata_line(message: &mut Message, config: &Config) {
    let mut shown = BTreeMap::new();
    if config.metadata {
        let metadata = message.metadata.iter().flatten();
        shown.extend(metadata.map(|(name, value)| (name.clone(), value.clone())));
    }
    // The runtime's values override a sender's claims.
    if config.time {
        let time = message
            .created_at
            .to_rfc3339_opts(SecondsFormat::Secs, true);
        shown.insert("time".to_owned(), json!(time));
    }
    if let Some(actor) = message.external_actor.as_ref().filter(|_| config.actor) {
        let name = actor.name.as_ref().unwrap_or(&actor.id);
        shown.insert("from".to_owned(), json!(name));
    }
    if shown.is_empty() {
        return;
    }
    let line = format!("[metadata {}]", json!(shown));
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

    fn view_of(message: Message, config: Value) -> Message {
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
    fn user_message_begins_with_its_metadata() {
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
            assert_eq!(view_of(user(), config).text(), Some(text));
        }
    }

    #[test]
    fn other_messages_are_unchanged_and_an_image_gets_a_text_part() {
        let agent = Message::assistant("Hello");
        assert_eq!(view_of(agent.clone(), json!({})), agent);
        let picture = Message {
            content: vec![ContentPart::Image(
                crate::message::ImageContentPart::default(),
            )],
            ..user()
        };
        assert_eq!(view_of(picture, json!({})).content.len(), 2);
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let error = MessageMetadataCapability.validate_config(&json!({"tim": true}));
        assert!(error.unwrap_err().contains("tim"));
    }
}
