//! Arguments that `run` and `chat` share: the approvals, the directory and the thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Args;
use windlass_protocol::{CreateThread, StartTurn};

use crate::cli::{or_current, printable};
use crate::connect::{DaemonConnection, DaemonTarget, Purpose};
use crate::data;
use crate::thread_session::{find, newest_in};

/// Who answers, where, and in which thread.
#[derive(Args)]
pub(crate) struct ThreadArgs {
    /// The model, as `provider/model`; providers are openai, openai-chat, anthropic, gemini, openrouter, azure-openai and sim [default: that of `WINDLASS_MODEL`, else the
    /// configured one; an earlier thread keeps its own].
    #[arg(long)]
    model: Option<String>,
    /// The agent of others that does the work, such as claude-code, codex or gemini; an earlier thread keeps its own.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "go_on"])]
    backend: Option<String>,
    /// The directory to work in [default: the current one].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Allows everything without asking.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Goes on with this thread; the end of its id will do.
    #[arg(long, value_name = "ID", conflicts_with = "go_on")]
    resume: Option<String>,
    /// Goes on with the newest thread of this directory.
    #[arg(long = "continue", short = 'c')]
    go_on: bool,
    /// The data directory [default: the user's own, under `$XDG_STATE_HOME/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
}

impl ThreadArgs {
    /// Returns the working directory.
    pub(crate) fn cwd(&self, workspace: Option<PathBuf>) -> Result<PathBuf> {
        let flag = match (&self.cwd, &workspace) {
            (None, Some(_)) => "--workspace",
            _ => "--cwd",
        };
        let cwd = or_current(self.cwd.clone().or(workspace))?;
        ensure!(
            cwd.is_dir(),
            "{} is no directory; name another with {flag}",
            printable(&cwd)
        );
        Ok(cwd)
    }

    pub(crate) fn data(&self) -> Result<PathBuf> {
        data::directory(self.data.clone())
    }

    /// Connects to the daemon.
    pub(crate) async fn connect(
        &self,
        cwd: &Path,
        config: Option<&Path>,
    ) -> Result<Arc<DaemonConnection>> {
        let target = DaemonTarget {
            data: self.data()?,
            config: config.map(Path::to_owned),
            model: self.model(),
            workspace: cwd.to_owned(),
            purpose: Purpose::Work,
            backend: self.backend.clone(),
        };
        Ok(Arc::new(DaemonConnection::open(target).await?))
    }

    /// Returns whether the arguments name an existing thread.
    pub(crate) fn is_earlier(&self) -> bool {
        self.go_on || self.resume.is_some()
    }

    /// Finds the existing thread that the arguments name; `None` if they name none.
    pub(crate) async fn earlier(
        &self,
        daemon: &DaemonConnection,
        cwd: &Path,
    ) -> Result<Option<String>> {
        match &self.resume {
            Some(id) => find(daemon, id).await.map(Some),
            None if self.go_on => newest_in(daemon, cwd).await,
            None => Ok(None),
        }
    }

    /// Returns the model for new threads: the flag, else `WINDLASS_MODEL`.
    fn model(&self) -> Option<String> {
        let usual = || std::env::var("WINDLASS_MODEL").ok();
        let model = self.model.clone().or_else(usual);
        model.filter(|model| !model.trim().is_empty())
    }

    /// Returns the request for a new thread.
    pub(crate) fn new_thread(&self) -> CreateThread {
        CreateThread {
            model: self.model(),
            backend: self.backend.clone(),
            ..CreateThread::default()
        }
    }

    /// Returns the options for turns of an existing thread.
    pub(crate) fn turn_options(&self) -> StartTurn {
        StartTurn {
            model: self.model.clone(),
            ..StartTurn::default()
        }
    }
}
