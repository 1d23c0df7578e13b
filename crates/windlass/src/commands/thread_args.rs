//! Arguments that `run` and `chat` share: model, directory, thread and approvals.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Args;
use windlass_protocol::{CreateThread, StartTurn};

use crate::cli::{or_current, printable, set_variable};
use crate::client::connect::{ConnectionPurpose, DaemonConnection, DaemonTarget};
use crate::client::thread_session::{find, newest_in};
use crate::data;

#[derive(Args)]
pub(crate) struct ThreadArgs {
    /// Model, as `provider/model`; providers are openai, openai-chat, anthropic, gemini, openrouter, azure-openai and sim [default: `WINDLASS_MODEL`, else the
    /// configured model, or that of the continued thread].
    #[arg(long)]
    model: Option<String>,
    /// External agent that executes the turns of a new thread, such as claude-code, codex or gemini.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "continue_newest"])]
    backend: Option<String>,
    /// Working directory [default: the current one].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Allows all calls without asking.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Continues the thread with this ID; the end of the ID is enough.
    #[arg(long, value_name = "ID", conflicts_with = "continue_newest")]
    resume: Option<String>,
    /// Continues the newest thread of this directory.
    #[arg(long = "continue", short = 'c')]
    continue_newest: bool,
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
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
            "{} is not a directory; name another with {flag}",
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
        config: Option<PathBuf>,
    ) -> Result<Arc<DaemonConnection>> {
        let (data, purpose) = (self.data()?, ConnectionPurpose::RunTurns);
        let target = DaemonTarget {
            model: self.model(),
            backend: self.backend.clone(),
            ..DaemonTarget::new(data, cwd.to_owned(), config, purpose)
        };
        Ok(Arc::new(DaemonConnection::open(target).await?))
    }

    /// Returns whether the arguments name an existing thread.
    pub(crate) fn names_thread(&self) -> bool {
        self.continue_newest || self.resume.is_some()
    }

    /// Finds the existing thread that the arguments name; `None` if they name none.
    pub(crate) async fn find_thread(
        &self,
        daemon: &DaemonConnection,
        cwd: &Path,
    ) -> Result<Option<String>> {
        match &self.resume {
            Some(id) => find(daemon, id).await.map(Some),
            None if self.continue_newest => newest_in(daemon, cwd).await,
            None => Ok(None),
        }
    }

    /// Returns the model for new threads: the flag, else `WINDLASS_MODEL`.
    fn model(&self) -> Option<String> {
        let model = self.model.clone().filter(|model| !model.trim().is_empty());
        model.or_else(|| set_variable("WINDLASS_MODEL"))
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
