//! Automations and their runs.

use windlass_protocol::{CreateAutomation, PatchAutomation};

use super::tasks::limit;
use super::{Answer, Id, created, ok};
use crate::http::body::Payload;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;

pub(super) async fn list(asked: Asked) -> Answer {
    ok(&asked.list_automations().await?)
}

pub(super) async fn create(asked: Asked, body: Payload<CreateAutomation>) -> Answer {
    let Payload(request, unknown) = body;
    unknown.refuse_limits()?;
    created(&asked.create_automation(request).await?)
}

pub(super) async fn get(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.automation(&id).await?)
}

pub(super) async fn patch(asked: Asked, Path(id): Id, body: Payload<PatchAutomation>) -> Answer {
    let Payload(request, unknown) = body;
    unknown.refuse_limits()?;
    ok(&asked.patch_automation(&id, request).await?)
}

pub(super) async fn delete(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.remove_automation(&id).await?)
}

pub(super) async fn run(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.run_automation(&id).await?)
}

pub(super) async fn pause(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.pause_automation(&id).await?)
}

pub(super) async fn resume(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.resume_automation(&id).await?)
}

pub(super) async fn runs(asked: Asked, Path(id): Id, query: Query) -> Answer {
    ok(&asked.automation_runs(&id, limit(&query)?).await?)
}
