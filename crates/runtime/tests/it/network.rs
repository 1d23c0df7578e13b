//! R69: tools reach the network through one seam, where the merged rules of their session hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::capabilities::CapabilityRegistry;
use windlass_core::egress::{
    EgressError, EgressRequest, EgressResponse, EgressResult, EgressService, EgressStreamResponse,
};
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::platform_definition::PlatformDefinition;
use windlass_core::tools::ToolExecutionResult;
use windlass_runtime::InProcessRuntimeBuilder;

use crate::support::{Bundle, ScriptedCall, ScriptedModel, call, scripted_model, soon, tool};

/// A network of two hosts that redirects every request and ignores the rules.
#[derive(Clone, Default)]
struct Network {
    asked: Arc<Mutex<Vec<EgressRequest>>>,
}

#[async_trait]
impl EgressService for Network {
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse> {
        let elsewhere = match request.url.as_str() {
            "https://api.example.com/go" => "https://api.example.com/there",
            _ => "http://169.254.169.254/latest",
        };
        self.asked.lock().unwrap().push(request);
        Ok(EgressResponse {
            status: 302,
            headers: BTreeMap::from([("location".to_owned(), elsewhere.to_owned())]),
            body: Vec::new(),
        })
    }
    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse> {
        self.send(request).await?;
        Err(EgressError::Unavailable)
    }
}

/// Runs a tool that follows redirects from a URL with its own rules; returns the outcome of each hop.
async fn follow(own: Option<NetworkAccessList>, url: &str) -> (Vec<Value>, Vec<EgressRequest>) {
    let network = Network::default();
    let own = Arc::new(own);
    let fetch = tool("fetch", move |arguments, context| {
        let own = Arc::clone(&own);
        async move {
            let mut url = arguments["url"].as_str().unwrap().to_owned();
            let mut hops = Vec::new();
            for _ in 0..3 {
                let request = EgressRequest {
                    network_access: (*own).clone(),
                    ..EgressRequest::new("GET", url.clone())
                };
                match context.egress_service.as_ref().unwrap().send(request).await {
                    Ok(response) => {
                        hops.push(json!(response.status));
                        url = response.headers["location"].clone();
                    }
                    Err(error) => {
                        hops.push(json!(error.to_string()));
                        break;
                    }
                }
            }
            ToolExecutionResult::success(hops)
        }
    });
    let model = ScriptedModel::new([ScriptedCall::tools(vec![call(
        "c",
        "fetch",
        json!({ "url": url }),
    )])]);
    let mut drivers = DriverRegistry::new();
    model.register(&mut drivers, ProviderType::LlmSim);
    let platform = PlatformDefinition::builder()
        .capability_registry(CapabilityRegistry::new())
        .driver_registry(drivers)
        .egress_service(Arc::new(network.clone()))
        .build();
    let runtime = InProcessRuntimeBuilder::new()
        .platform_definition(platform)
        .default_model(scripted_model())
        .capability(Bundle::new("net").tool(&fetch))
        .single_session(|session| {
            session
                .with_capability("net")
                .harness_network_access(NetworkAccessList::allow_only(["*.example.com"]))
                .agent_network_access(NetworkAccessList::block(["evil.example.com"]))
                .session_network_access(NetworkAccessList::allow_only(["api.example.com", "b.org"]))
        })
        .build()
        .await
        .unwrap();
    let session = runtime.default_session_id().unwrap();
    let turn = soon(runtime.run_text_turn(session, "go")).await.unwrap();
    assert!(turn.success, "{:?}", turn.error);
    let messages = runtime.messages(session).await.unwrap();
    let result = messages
        .iter()
        .find_map(|message| message.tool_result_content());
    let hops = result.unwrap().result.as_ref().unwrap().as_array().unwrap();
    let asked = network.asked.lock().unwrap().clone();
    (hops.clone(), asked)
}

fn denied(url: &str) -> Value {
    json!(format!(
        "access to {url} is denied by the session's network rules"
    ))
}

#[cfg(feature = "url-rules")]
#[tokio::test]
async fn r69_merged_rules_apply_to_every_hop() {
    let (hops, asked) = follow(None, "https://api.example.com/go").await;
    assert_eq!(
        hops,
        [
            json!(302),
            json!(302),
            denied("http://169.254.169.254/latest")
        ]
    );
    // The service gets the rules with the request, for the addresses that it finds.
    let rules = asked[0].network_access.clone().unwrap();
    assert_eq!(rules.allowed, ["api.example.com"]);
    assert_eq!(rules.blocked, ["evil.example.com"]);
    assert!(asked[0].check_address([10, 0, 0, 1].into()).is_err());
    assert!(asked[0].check_address([93, 184, 216, 34].into()).is_ok());
}

#[tokio::test]
async fn r69_a_tool_cannot_widen_the_rules() {
    let wide = NetworkAccessList::allow_only(["*"]);
    for own in [None, Some(wide), Some(NetworkAccessList::default())] {
        for url in ["https://evil.example.com/", "https://b.org/"] {
            let (hops, asked) = follow(own.clone(), url).await;
            assert_eq!(hops, [denied(url)]);
            assert!(asked.is_empty());
        }
    }
}

#[tokio::test]
async fn r69_a_tool_can_narrow_the_rules() {
    let own = NetworkAccessList::block(["api.example.com"]);
    let (hops, asked) = follow(Some(own), "https://api.example.com/go").await;
    assert_eq!(hops, [denied("https://api.example.com/go")]);
    assert!(asked.is_empty());
}
