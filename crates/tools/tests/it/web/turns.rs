//! The tool in turns of a real runtime.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::capabilities::{AgentCapabilityConfig, Capability};
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_core::tools::{SideEffectClass, ToolPolicy};
use windlass_runtime::{Conversation, Need};

use super::PageReader;
use super::site::{Response, Site};

async fn conversation(reader: &PageReader, config: Value, url: &str) -> Conversation {
    let call = SimToolCall::new("web_fetch", json!({ "url": url }));
    let turns = [
        SimTurn::ToolCalls(vec![call]),
        SimTurn::Assistant("done".into()),
    ];
    let (capability, egress) = (reader.capability(), Arc::clone(&reader.egress));
    Conversation::builder()
        .simulator(LlmSimConfig::scripted(turns.into()))
        .with_runtime(|runtime| runtime.capability(capability).egress_service(egress))
        .capability(AgentCapabilityConfig::with_config("web_fetch", config))
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn request_waits_for_approval() {
    let page = [("/", Response::page("text/plain", b"the page"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let reader = PageReader::new(&["127.0.0.1"], &[], None);
    let url = format!("http://127.0.0.1:{}/", site.port);

    let mut chat = conversation(&reader, Value::Null, &url).await;
    let waiting = chat.say("continue").await.unwrap();
    assert_eq!(waiting.pending[0].need, Need::Approval);
    assert_eq!(site.requests(), [""; 0]);
    let call = waiting.pending[0].clone();
    assert_eq!(chat.approve(&call).await.unwrap().text, "done");
    assert_eq!(site.requests().len(), 1);
    let messages = chat.messages().await.unwrap();
    let result = messages
        .iter()
        .find_map(|message| message.tool_result_content()?.result.clone());
    assert_eq!(result.unwrap()["text"], "the page");

    let never = json!({ "approval": "never" });
    let mut chat = conversation(&reader, never, &url).await;
    assert_eq!(chat.say("continue").await.unwrap().text, "done");
    assert_eq!(site.requests().len(), 2);
}

#[test]
fn web_fetch_is_idempotent_and_needs_approval() {
    let reader = PageReader::new(&[], &[], None);
    let tool = reader.capability().tools().remove(0);
    assert_eq!(tool.policy(), ToolPolicy::RequiresApproval);
    assert_eq!(tool.hints().side_effects(), SideEffectClass::Idempotent);
    let odd = reader
        .capability()
        .validate_config(&json!({"approval": "maybe"}));
    assert!(odd.is_err());
}
