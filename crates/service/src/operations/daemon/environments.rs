//! The registry of environments.

use windlass_protocol::{EnvironmentInfo, EnvironmentList};
use windlass_store::queries::{ThreadQuery, ThreadState};

use crate::environments::{not_found, tool_environment, validated};
use crate::operations::prelude::*;

impl Handle<op::ListEnvironments> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        _: Call<op::ListEnvironments>,
    ) -> Result<EnvironmentList> {
        let environments = self.environments().to_vec();
        Ok(EnvironmentList { environments })
    }
}

impl Handle<op::GetEnvironment> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::GetEnvironment>,
    ) -> Result<EnvironmentInfo> {
        self.environment(&call.path.id)
    }
}

impl Handle<op::CreateEnvironment> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::CreateEnvironment>,
    ) -> Result<EnvironmentInfo> {
        let request = call.request;
        let environment = validated(request)?;
        self.refuse_hidden(&environment.root)?;
        let is_new = !self.fixed.has(&environment.id)
            && self.store.add_environment(environment.clone()).await?;
        if !is_new {
            // If an equal environment exists, an earlier attempt of this request created it and its response was lost.
            let existing = self.environment(&environment.id)?;
            let requested = EnvironmentInfo {
                created_at: existing.created_at.clone(),
                ..environment
            };
            if ctx.repeatable.is_some() && existing == requested {
                return Ok(existing);
            }
            return Err(ApiError::new(
                ErrorCode::EnvironmentExists,
                "an environment of this id exists",
            ));
        }
        self.settings
            .environments
            .put(tool_environment(&environment));
        self.reload_environments().await?;
        Ok(environment)
    }
}

/// Removes an environment that no running turn uses.
impl Handle<op::DeleteEnvironment> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::DeleteEnvironment>) -> Result<()> {
        let id = &call.path.id;
        if self.environment(id)?.protected {
            return Err(ApiError::new(
                ErrorCode::EnvironmentProtected,
                format!("the environment `{id}` cannot be removed"),
            ));
        }
        let at_work = ThreadQuery {
            states: vec![ThreadState::Running, ThreadState::Waiting],
            ..ThreadQuery::first(usize::MAX)
        };
        let at_work = self.queries.threads(at_work).await?.entries.into_iter();
        let mut environments = at_work.filter_map(|thread| thread.latest?.environment);
        if environments.any(|environment| environment.environment_id == *id) {
            return Err(ApiError::new(
                ErrorCode::EnvironmentInUse,
                "a turn works in the environment",
            ));
        }
        if !self.store.remove_environment(id).await? {
            return Err(not_found());
        }
        self.settings.environments.remove(id);
        self.reload_environments().await
    }
}
