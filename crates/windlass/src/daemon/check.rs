//! Refuses a configuration that no daemon can work by, before anything is made or changed: at a start, and when it is read again.

use std::path::Path;

use anyhow::Result;
use windlass_server::check_environments;
use windlass_tools::{Environments, ShellSettings};

use super::{budget, checkpoints, configured, mcp, named_secrets, outputs, retention, web, work};
use crate::backends::{self, Surroundings};
use crate::config::Config;
use crate::model::{self, Choice};

/// A configuration, and what it has to fit.
pub(super) struct Check<'a> {
    pub(super) config: &'a Config,
    pub(super) data: &'a Path,
    pub(super) workspace: &'a Path,
    /// The model that was named by a flag.
    pub(super) model: Option<&'a str>,
    /// Whether agents of others may carry turns.
    pub(super) has_agents: bool,
}

impl Check<'_> {
    /// Makes everything that is made from the configuration alone, and keeps nothing of it.
    pub(super) fn all(&self) -> Result<()> {
        let config = self.config;
        let variable = |name: &str| std::env::var(name).ok();
        retention::of(&config.retention)?;
        work::settings(config)?;
        checkpoints::limits(&config.checkpoints)?;
        outputs::limits(&config.outputs)?;
        budget::budgets(&config.budget)?;
        budget::of_day(&config.budget)?;
        configured::approvals(config)?;
        let places = configured::environments(config, self.workspace);
        check_environments(self.workspace, &places)?;
        let secrets = named_secrets::of(config, variable)?;
        web::proxy(config)?;
        let (environments, shell) = (Environments::new(), ShellSettings::default());
        mcp::client(config, &environments, &shell, &secrets, variable)?;
        if self.has_agents {
            let around = Surroundings {
                data: self.data,
                environments: &environments,
                shell: &shell,
            };
            backends::all(&config.backends, &around)?;
        }
        if let Choice::Real(_) = model::choose(self.model, config, variable)? {
            model::further(self.model, config, variable)?;
            model::drivers(config)?;
        }
        Ok(())
    }
}
