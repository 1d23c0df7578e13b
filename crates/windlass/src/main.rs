//! The binary `windlass`: each word has its file in `commands`.

mod commands;

use std::process::ExitCode;

use clap::Parser;

/// Runs AI agents turn by turn, and goes on after a crash.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    /// The directory that tools may touch.
    #[arg(long, global = true, value_name = "DIR")]
    workspace: Option<std::path::PathBuf>,
    #[command(subcommand)]
    word: commands::Word,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { workspace, word } = Cli::parse();
    match word.carry_out(workspace).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            commands::complain(&error);
            ExitCode::FAILURE
        }
    }
}
