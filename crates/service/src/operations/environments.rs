//! The registry of environments.

use windlass_protocol::{CreateEnvironment, Environment, ErrorCode};
use windlass_store::queries::{ThreadQuery, ThreadState};

use super::Asked;
use crate::environments::{checked, for_tools, not_found};
use crate::error::{ApiError, Result};

impl Asked {
    /// Registers an environment.
    pub async fn create_environment(&self, request: CreateEnvironment) -> Result<Environment> {
        let environment = checked(request)?;
        self.refuse_hidden(&environment.root)?;
        let is_new = !self.fixed.has(&environment.id)
            && self.store.add_environment(environment.clone()).await?;
        if !is_new {
            // What the same request has made is what it asked for, though its answer was lost.
            let made = self.environment(&environment.id)?;
            let wanted = Environment {
                created_at: made.created_at.clone(),
                ..environment
            };
            if self.repeatable.is_some() && made == wanted {
                return Ok(made);
            }
            return Err(ApiError::new(
                ErrorCode::EnvironmentExists,
                "an environment of this id exists",
            ));
        }
        self.settings.environments.put(for_tools(&environment));
        self.reload_environments().await?;
        Ok(environment)
    }

    /// Removes an environment in which no turn works.
    pub async fn remove_environment(&self, id: &str) -> Result<()> {
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
        if environments.any(|environment| environment.environment_id == id) {
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
