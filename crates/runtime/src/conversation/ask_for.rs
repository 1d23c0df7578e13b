//! Answers as Rust types.

use std::any::type_name;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::message::{ContentPart, Controls, InputMessage};

use super::error::ConversationError;
use super::handle::Conversation;
use super::typed_tool::schema_of;
use crate::json_in_text;

/// The hint under which a driver finds the schema of the answer.
const SCHEMA_HINT: &str = "output_schema";

impl Conversation {
    /// Requests an answer of type `T`. The model receives the schema of `T`, and gets one more attempt if its answer does not match.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct City {
    ///     name: String,
    ///     population: u64,
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let sim = LlmSimConfig::fixed(r#"{ "name": "Oslo", "population": 717710 }"#);
    /// # let mut chat = Conversation::builder().simulator(sim).start().await?;
    /// let city: City = chat.ask_for("Which is the largest city of Norway?").await?;
    /// assert_eq!((city.name.as_str(), city.population), ("Oslo", 717_710));
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn ask_for<T: DeserializeOwned + JsonSchema>(
        &mut self,
        input: impl Into<InputMessage>,
    ) -> Result<T, ConversationError> {
        let schema = schema_of::<T>();
        let request = format!(
            "Answer with JSON only, without any other text. It must fit this JSON Schema:\n{schema}"
        );
        let first = with_schema(input.into(), request, &schema);
        let reply = self.say(first).await?;
        let Err(reason) = json_in_text::parse::<T>(&reply.text) else {
            return read(&reply.text);
        };
        let repair = format!(
            "Your answer could not be read: {reason}. Answer again, with JSON only that fits this JSON Schema:\n{schema}"
        );
        let reply = self.say(with_schema(empty(), repair, &schema)).await?;
        read(&reply.text)
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConversationError> {
    json_in_text::parse(text).map_err(|reason| ConversationError::Unreadable {
        expected: type_name::<T>(),
        reason,
        text: text.to_owned(),
    })
}

fn empty() -> InputMessage {
    InputMessage {
        content: Vec::new(),
        ..InputMessage::user("")
    }
}

/// The schema request is a separate message part after the caller's input. A driver that can enforce a schema finds it among the hints.
fn with_schema(mut input: InputMessage, request: String, schema: &Value) -> InputMessage {
    input.content.push(ContentPart::text(request));
    let controls = input.controls.get_or_insert_with(Controls::default);
    let hints = controls.hints.get_or_insert_with(HashMap::new);
    hints.insert(SCHEMA_HINT.to_owned(), schema.clone());
    input
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use windlass_core::llmsim_driver::LlmSimConfig;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Point {
        x: i64,
        y: i64,
    }

    async fn ask(answers: &[&str]) -> (Conversation, Result<Point, ConversationError>) {
        let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let mut chat = Conversation::builder()
            .simulator(LlmSimConfig::sequence(answers))
            .start()
            .await
            .unwrap();
        let point = chat.ask_for("Where?").await;
        (chat, point)
    }

    #[tokio::test]
    async fn matching_answer_is_deserialised_and_the_model_receives_the_schema() {
        let (chat, point) = ask(&["```json\n{\"x\": 1, \"y\": 2}\n```"]).await;
        assert_eq!(point.unwrap(), Point { x: 1, y: 2 });
        let input = &chat.messages().await.unwrap()[0];
        assert_eq!(input.text(), Some("Where?"));
        let request = input.content[1].as_text().unwrap();
        assert!(
            request.contains("JSON only") && request.contains("\"x\""),
            "{request}"
        );
        let hints = input.controls.as_ref().unwrap().hints.as_ref().unwrap();
        assert_eq!(
            hints[SCHEMA_HINT]["required"],
            serde_json::json!(["x", "y"])
        );
    }

    #[tokio::test]
    async fn mismatched_answer_is_requested_once_more() {
        let (chat, point) = ask(&["{\"x\": 1}", "{\"x\": 1, \"y\": 2}"]).await;
        assert_eq!(point.unwrap(), Point { x: 1, y: 2 });
        let messages = chat.messages().await.unwrap();
        let repair = messages[2].text().unwrap();
        assert!(repair.contains("missing field `y`"), "{repair}");
        assert_eq!(messages.len(), 4);
    }

    #[tokio::test]
    async fn second_mismatched_answer_is_an_error_with_its_text() {
        let (chat, point) = ask(&["I do not know", "Still not"]).await;
        let Err(ConversationError::Unreadable { text, expected, .. }) = point else {
            panic!("{point:?}");
        };
        assert_eq!(text, "Still not");
        assert!(expected.ends_with("Point"));
        assert_eq!(chat.messages().await.unwrap().len(), 4);
    }
}
