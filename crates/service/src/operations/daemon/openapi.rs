//! The OpenAPI description of the API.

use std::sync::LazyLock;

use serde_json::Value;

use crate::operations::prelude::*;

static DOCUMENT: LazyLock<Value> = LazyLock::new(windlass_protocol::openapi::document);

impl Handle<op::GetOpenapi> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::GetOpenapi>) -> Result<Value> {
        Ok(DOCUMENT.clone())
    }
}
