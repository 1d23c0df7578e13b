//! What the daemon is set to, and the providers of its models.

use windlass_protocol::config::{SetConfig, SwitchProvider};

use super::{Answer, Id, ok};
use crate::http::body::{Nothing, Optional, Payload};
use crate::http::path::Path;
use crate::http::request::Asked;

pub(super) async fn get(asked: Asked) -> Answer {
    ok(&asked.config())
}

pub(super) async fn set(asked: Asked, body: Payload<SetConfig>) -> Answer {
    ok(&asked.set_config(body.0).await?)
}

pub(super) async fn reload(asked: Asked, _: Nothing) -> Answer {
    ok(&asked.reload_config().await?)
}

pub(super) async fn providers(asked: Asked) -> Answer {
    ok(&asked.list_providers())
}

pub(super) async fn current_models(asked: Asked) -> Answer {
    ok(&asked.list_models()?)
}

pub(super) async fn models(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.list_provider_models(&id)?)
}

pub(super) async fn switch(asked: Asked, Path(id): Id, body: Optional<SwitchProvider>) -> Answer {
    ok(&asked.switch_provider(&id, body.0).await?)
}
