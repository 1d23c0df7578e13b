//! The description of the API.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Answer, ok};

static DOCUMENT: LazyLock<Value> = LazyLock::new(windlass_protocol::openapi::document);

pub(super) async fn openapi() -> Answer {
    ok(&*DOCUMENT)
}
