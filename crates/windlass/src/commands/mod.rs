//! The words of the command line, one file each.

mod serve;
mod token;

use std::path::PathBuf;

use clap::Subcommand;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Word {
    /// Serves the Runtime API over HTTP and SSE.
    #[command(alias = "app-server")]
    Serve(serve::Serve),
}

impl Word {
    pub(crate) async fn carry_out(self, workspace: Option<PathBuf>) -> anyhow::Result<()> {
        match self {
            Self::Serve(serve) => serve.carry_out(workspace).await,
        }
    }
}

/// Tells what went wrong, with its causes.
#[expect(
    clippy::print_stderr,
    reason = "data goes to stdout, everything else here"
)]
pub(crate) fn complain(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

/// Tells something that is not data.
#[expect(
    clippy::print_stderr,
    reason = "data goes to stdout, everything else here"
)]
pub(crate) fn remark(text: &str) {
    eprintln!("{text}");
}
