//! Rejects an invalid configuration before anything is created or changed, at startup and on reload.

use std::path::Path;

use anyhow::{Result, ensure};
use windlass_server::check_environments;
use windlass_tools::{Environments, ShellSettings};

use super::{
    budget, checkpoints, jobs, mcp, named_secrets, outputs, retention, runtime_config, web,
};
use crate::backends::{self, BackendContext};
use crate::cli::printable;
use crate::config::Config;
use crate::model::{self, Choice};
use crate::sandbox;

/// A configuration and the context in which it must be valid.
pub(crate) struct ConfigCheck<'a> {
    pub(crate) config: &'a Config,
    pub(crate) data: &'a Path,
    pub(crate) workspace: &'a Path,
    /// The model from the command line.
    pub(crate) model: Option<&'a str>,
    /// Whether external agents may run turns.
    pub(crate) has_agents: bool,
}

impl ConfigCheck<'_> {
    /// Builds everything that depends only on the configuration, and discards it.
    pub(crate) fn all(&self) -> Result<()> {
        self.all_but_models()?;
        let (config, variable) = (self.config, |name: &str| std::env::var(name).ok());
        if let Choice::Real(_) = model::choose(self.model, config, variable)? {
            model::further(self.model, config, variable)?;
            model::drivers(config)?;
        }
        Ok(())
    }

    /// Like [`all`](Self::all) without the models, for callers that check models themselves.
    pub(crate) fn all_but_models(&self) -> Result<()> {
        let config = self.config;
        let variable = |name: &str| std::env::var(name).ok();
        retention::convert(&config.retention)?;
        jobs::settings(config)?;
        checkpoints::limits(&config.checkpoints)?;
        outputs::limits(&config.outputs)?;
        budget::budgets(&config.budget)?;
        budget::day_limits(&config.budget)?;
        runtime_config::approvals(config)?;
        for (name, entry) in &config.environments {
            let root = &entry.root;
            ensure!(
                root.is_dir(),
                "the environment `{name}` is not available: there is no directory {}; create it, or change environments.{name}.root",
                printable(root)
            );
        }
        let places = runtime_config::environments(config, self.workspace);
        check_environments(self.workspace, &places)?;
        let secrets = named_secrets::load(config, variable)?;
        web::proxy(config)?;
        sandbox::home(&config.shell, self.data)?;
        let (environments, shell) = (Environments::new(), ShellSettings::default());
        mcp::client(config, &environments, &shell, &secrets, variable)?;
        if self.has_agents {
            let context = BackendContext {
                data: self.data,
                environments: &environments,
                shell: &shell,
            };
            backends::all(&config.backends, &context)?;
        }
        Ok(())
    }
}
