//! The OpenAPI description of the API.

use std::sync::LazyLock;

use serde_json::Value;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;

use crate::error::Result;
use crate::handle::Handle;
use crate::operations::RequestContext;
use crate::service::Service;

static DOCUMENT: LazyLock<Value> = LazyLock::new(windlass_protocol::openapi::document);

impl Handle<op::GetOpenapi> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::GetOpenapi>) -> Result<Value> {
        Ok(DOCUMENT.clone())
    }
}
