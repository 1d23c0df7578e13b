//! Pages of the web, from local servers that represent untrusted ones.

mod pages;
mod proxy;
#[cfg(target_os = "linux")]
mod proxy_sandbox;
mod reach;
mod secrets;
mod site;
mod turns;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::egress::{
    EgressError, EgressRequest, EgressResponse, EgressResult, EgressService, EgressStreamResponse,
};
use windlass_core::named_secrets::NamedSecrets;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::traits::SecretPlaces;
use windlass_tools::{Resolver, WebCapability, WebEgress, WebRules, WebSettings};

use crate::support::{TestWorkspace, with_network};

/// A resolver: each query gets the next answer, and the last answer is repeated.
#[derive(Default)]
struct FakeResolver {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    requests: Mutex<Vec<String>>,
}

impl FakeResolver {
    fn new(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |address: &&str| address.parse().unwrap();
        let answers = answers.iter().map(|(name, answers)| {
            let answers = answers.iter().map(|one| one.iter().map(parse).collect());
            ((*name).to_owned(), answers.collect())
        });
        Arc::new(Self {
            answers: answers.collect(),
            requests: Mutex::default(),
        })
    }
}

#[async_trait]
impl Resolver for FakeResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut requests = self.requests.lock().unwrap();
        let before = requests.iter().filter(|known| *known == name).count();
        requests.push(name.to_owned());
        let answers = self.answers.get(name);
        let answers = answers.ok_or_else(|| io::Error::other("no such name"))?;
        Ok(answers[before.min(answers.len() - 1)].clone())
    }
}

/// Reads pages in an environment with a network.
struct PageReader {
    workspace: TestWorkspace,
    rules: Arc<WebRules>,
    settings: WebSettings,
    egress: Arc<dyn EgressService>,
    list: Option<NetworkAccessList>,
    secrets: Option<NamedSecrets>,
    places: Option<Arc<dyn SecretPlaces>>,
}

impl PageReader {
    /// Uses the real egress service with test names.
    fn new(allow: &[&str], deny: &[&str], names: Option<Arc<FakeResolver>>) -> Self {
        let rules = Arc::new(WebRules::parse(allow, deny).unwrap());
        let mut egress = WebEgress::new(Arc::clone(&rules));
        if let Some(names) = names {
            egress = egress.with_resolver(names);
        }
        Self {
            workspace: TestWorkspace::with(with_network()),
            rules,
            settings: WebSettings::default(),
            egress: Arc::new(egress),
            list: None,
            secrets: None,
            places: None,
        }
    }

    fn capability(&self) -> WebCapability {
        let (rules, settings) = (Arc::clone(&self.rules), self.settings.clone());
        WebCapability::new(self.workspace.environments.clone(), rules, settings)
    }

    async fn fetch(&self, url: &str) -> Result<Value, String> {
        self.call(json!({ "url": url })).await
    }

    async fn call(&self, arguments: Value) -> Result<Value, String> {
        let tool = self.capability().tools().remove(0);
        let mut context = self.workspace.context();
        context.egress_service = Some(Arc::clone(&self.egress));
        context.network_access = self.list.clone();
        context.secrets = self.secrets.clone();
        context.secret_places = self.places.clone();
        match tool.execute_with_context(arguments, &context).await {
            ToolExecutionResult::Success(page) => Ok(page),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

/// An egress service that answers with redirects, without any server.
struct Redirects(BTreeMap<&'static str, &'static str>);

#[async_trait]
impl EgressService for Redirects {
    async fn send(&self, _request: EgressRequest) -> EgressResult<EgressResponse> {
        Err(EgressError::Unavailable)
    }
    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse> {
        let location = self.0.get(request.url.as_str());
        let location = location.map(|to| ("location".to_owned(), (*to).to_owned()));
        let (status, mut headers) = match location {
            Some(location) => (302, BTreeMap::from([location])),
            None => (200, BTreeMap::new()),
        };
        headers.insert("content-type".to_owned(), "text/plain".to_owned());
        Ok(EgressStreamResponse {
            status,
            headers,
            body: Box::pin(EmptyBody),
        })
    }
}

/// An empty body.
struct EmptyBody;

impl futures_core::Stream for EmptyBody {
    type Item = EgressResult<Vec<u8>>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(None)
    }
}
