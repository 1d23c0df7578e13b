//! Conversations by name and by ID, and the model that they use.

use serde_json::json;
use windlass_core::error::AgentLoopError;
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{LlmProviderType, ModelWithDrivers, ModelWithProvider};
use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver};
use windlass_core::typed_id::SessionId;

use super::{calls, says, scripted};
use crate::conversation::{ConversationError, tool_fn};
use crate::{Conversation, Need};

fn serve(text: &'static str) -> DriverRegistry {
    let mut drivers = DriverRegistry::new();
    drivers.register(LlmProviderType::Anthropic, move |_, _| {
        Box::new(LlmSimDriver::new(LlmSimConfig::fixed(text)))
    });
    drivers
}

fn model_that_says(text: &'static str) -> ModelWithDrivers {
    ModelWithDrivers {
        model: ModelWithProvider {
            model: "m".into(),
            provider_type: LlmProviderType::Anthropic,
            api_key: Some("key".into()),
            base_url: None,
        },
        drivers: serve(text),
    }
}

#[tokio::test]
async fn drivers_of_the_program_override_those_of_the_model() {
    let model = || model_that_says("the model's");
    let own = || serve("the program's");
    for (builder, expected) in [
        (Conversation::builder().model(model()), "the model's"),
        (
            Conversation::builder().model(model()).drivers(own()),
            "the program's",
        ),
        (
            Conversation::builder().drivers(own()).model(model()),
            "the program's",
        ),
    ] {
        let mut chat = builder.start().await.unwrap();
        assert_eq!(chat.say("Hi").await.unwrap().text, expected);
    }
}

#[tokio::test]
async fn each_name_is_its_own_conversation() {
    let (builder, _) = scripted(LlmSimConfig::fixed("Hello!"));
    let chats = builder.open().await.unwrap();
    assert!(chats.list().await.unwrap().is_empty());
    let mut ada = chats.named("Ada").await.unwrap();
    ada.say("Hi").await.unwrap();
    let ben = chats.named("Ben").await.unwrap();
    let unnamed = chats.begin().await.unwrap();
    let same = chats.named("Ada").await.unwrap();
    assert_eq!(same.session_id(), ada.session_id());
    assert_eq!(same.messages().await.unwrap().len(), 2);
    let listed = chats.list().await.unwrap();
    assert!(listed.is_sorted_by_key(|it| it.created_at));
    let mut listed: Vec<_> = listed
        .iter()
        .map(|it| (it.title.as_deref(), it.id))
        .collect();
    listed.sort();
    let expected = [
        (None, unnamed.session_id()),
        (Some("Ada"), ada.session_id()),
        (Some("Ben"), ben.session_id()),
    ];
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn started_conversation_is_the_default_session() {
    for id in [None, Some(SessionId::from_seed(9))] {
        let (builder, _) = scripted(LlmSimConfig::fixed("Hello!"));
        let builder = match id {
            Some(id) => builder.session_id(id),
            None => builder,
        };
        let chat = builder.start().await.unwrap();
        assert_eq!(chat.session_id(), id.unwrap_or(chat.session_id()));
        let default = chat.runtime().default_session_id();
        assert_eq!(default, Some(chat.session_id()));
    }
}

#[tokio::test]
async fn unknown_conversation_and_empty_name_are_refused() {
    let (builder, _) = scripted(LlmSimConfig::default());
    let chats = builder.open().await.unwrap();
    let id = SessionId::from_seed(1);
    let unknown = chats.get(id).await.unwrap_err();
    assert!(
        matches!(&unknown, ConversationError::Runtime(AgentLoopError::SessionNotFound(it)) if *it == id),
        "{unknown}"
    );
    let (builder, _) = scripted(LlmSimConfig::default());
    for refused in [chats.named("").await, builder.named("").start().await] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("name of a conversation is empty"), "{error}");
    }
    assert!(chats.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn pending_calls_of_all_conversations_are_listed() {
    let (builder, _) = scripted(LlmSimConfig::scripted(vec![
        calls("pay", json!({})),
        says("paid"),
    ]));
    let pay = tool_fn("pay", "", json!({"type": "object"}), |_, _| async {
        Ok("paid")
    });
    let chats = builder.tool(pay.requires_approval()).open().await.unwrap();
    let mut ids = Vec::new();
    for name in ["Ada", "Ben"] {
        let mut chat = chats.named(name).await.unwrap();
        chat.say("Pay").await.unwrap();
        ids.push(chat.session_id());
    }
    let pending = chats.pending().await.unwrap();
    let mut waiting: Vec<_> = pending.iter().map(|(id, call)| (*id, call.need)).collect();
    waiting.sort_by_key(|(id, _)| ids.iter().position(|it| it == id));
    assert_eq!(
        waiting,
        [(ids[0], Need::Approval), (ids[1], Need::Approval)]
    );
    for (id, call) in pending {
        let mut chat = chats.get(id).await.unwrap();
        assert_eq!(chat.pending().await.unwrap(), std::slice::from_ref(&call));
        assert_eq!(chat.refuse(&call).await.unwrap().text, "paid");
        assert!(chat.pending().await.unwrap().is_empty());
    }
    assert!(chats.pending().await.unwrap().is_empty());
}
