//! Refuses a configuration that no daemon can work by, before anything is made or changed: at a start, and when it is read again.

use std::path::Path;

use anyhow::{Result, ensure};
use windlass_server::check_environments;
use windlass_tools::{Environments, ShellSettings};

use super::{budget, checkpoints, configured, mcp, named_secrets, outputs, retention, web, work};
use crate::backends::{self, Surroundings};
use crate::cli::printable;
use crate::config::Config;
use crate::model::{self, Choice};
use crate::sandbox;

/// A configuration, and what it has to fit.
pub(crate) struct Check<'a> {
    pub(crate) config: &'a Config,
    pub(crate) data: &'a Path,
    pub(crate) workspace: &'a Path,
    /// The model that was named by a flag.
    pub(crate) model: Option<&'a str>,
    /// Whether agents of others may carry turns.
    pub(crate) has_agents: bool,
}

impl Check<'_> {
    /// Makes everything that is made from the configuration alone, and keeps nothing of it.
    pub(crate) fn all(&self) -> Result<()> {
        self.apart_from_models()?;
        let (config, variable) = (self.config, |name: &str| std::env::var(name).ok());
        if let Choice::Real(_) = model::choose(self.model, config, variable)? {
            model::further(self.model, config, variable)?;
            model::drivers(config)?;
        }
        Ok(())
    }

    /// Does the same with all that is no model, for who looks at models by themselves.
    pub(crate) fn apart_from_models(&self) -> Result<()> {
        let config = self.config;
        let variable = |name: &str| std::env::var(name).ok();
        retention::of(&config.retention)?;
        work::settings(config)?;
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
