//! A tool's network access, on which the rules of its session are enforced.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::egress::{
    EgressRequest, EgressResponse, EgressResult, EgressService, EgressStreamResponse,
};
use windlass_core::network_access::{NetworkAccessList, merge_network_access};

/// Applies the session's network rules to every request before it is sent. Each hop of a redirect is a request, so the rules apply to redirects too.
pub(super) struct RuledEgress {
    pub(super) service: Arc<dyn EgressService>,
    pub(super) rules: Option<NetworkAccessList>,
}

impl RuledEgress {
    /// The caller may narrow the rules, but cannot bypass them.
    fn with_rules(&self, mut request: EgressRequest) -> EgressResult<EgressRequest> {
        request.network_access =
            merge_network_access(self.rules.as_ref(), request.network_access.as_ref());
        request.check()?;
        Ok(request)
    }
}

#[async_trait]
impl EgressService for RuledEgress {
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse> {
        self.service.send(self.with_rules(request)?).await
    }
    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse> {
        self.service.send_stream(self.with_rules(request)?).await
    }
}
