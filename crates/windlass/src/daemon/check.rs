//! Rejects an invalid configuration before anything is created or changed, at startup and on reload.

use std::path::Path;

use anyhow::{Result, ensure};
use windlass_server::check_environments;
use windlass_tools::{Environments, ShellSettings};

use super::{budget, checkpoints, configured, jobs, mcp, named_secrets, outputs, retention, web};
use crate::backends::{self, Surroundings};
use crate::cli::printable;
use crate::config::Config;
use crate::model::{self, Choice};
use crate::sandbox;

/// A configuration and the context in which it must be valid.
pub(crate) struct Check<'a> {
    pub(crate) config: &'a Config,
    pub(crate) data: &'a Path,
    pub(crate) workspace: &'a Path,
    /// The model from the command line.
    pub(crate) model: Option<&'a str>,
    /// Whether external agents may run turns.
    pub(crate) has_agents: bool,
}

impl Check<'_> {
    /// Builds everything that depends only on the configuration, and discards it.
    pub(crate) fn all(&self) -> Result<()> {
        self.apart_from_models()?;
        let (config, variable) = (self.config, |name: &str| std::env::var(name).ok());
        if let Choice::Real(_) = model::choose(self.model, config, variable)? {
            model::further(self.model, config, variable)?;
            model::drivers(config)?;
        }
        Ok(())
    }

    /// Like [`all`](Self::all) without the models, for callers that check models themselves.
    pub(crate) fn apart_from_models(&self) -> Result<()> {
        let config = self.config;
        let variable = |name: &str| std::env::var(name).ok();
        retention::of(&config.retention)?;
        jobs::settings(config)?;
        checkpoints::limits(&config.checkpoints)?;
        outputs::limits(&config.outputs)?;
        budget::budgets(&config.budget)?;
        budget::of_day(&config.budget)?;
        configured::approvals(config)?;
        for (name, place) in &config.environments {
            let root = &place.root;
            ensure!(
                root.is_dir(),
                "the environment `{name}` cannot be had: there is no directory {}; make it, or name another in environments.{name}.root",
                printable(root)
            );
        }
        let places = configured::environments(config, self.workspace);
        check_environments(self.workspace, &places)?;
        let secrets = named_secrets::of(config, variable)?;
        web::proxy(config)?;
        sandbox::home(&config.shell, self.data)?;
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
        Ok(())
    }
}
