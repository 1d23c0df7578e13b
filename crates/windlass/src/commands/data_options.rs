//! Options of the commands that work on a data directory.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::data;

#[derive(Args)]
pub(crate) struct DataOptions {
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl DataOptions {
    /// Returns the data directory, which may not exist yet.
    pub(crate) fn directory(&self) -> Result<PathBuf> {
        data::directory(self.data.clone())
    }
}
