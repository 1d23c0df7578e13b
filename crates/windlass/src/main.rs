//! Windlass on the command line. Data goes to stdout, everything else to stderr.

mod cli;
mod commands;
mod config;
mod data;
mod log;
mod model;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { workspace, command } = Cli::parse();
    let done = match command {
        Command::Run(arguments) => commands::run::run(arguments).await,
        Command::Runs(runs) => runs.carry_out().await,
        Command::Token(token) => token.carry_out(),
        Command::Serve(serve) => serve.carry_out(workspace).await.map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            cli::note(&format!("error: {error:#}"));
            ExitCode::from(cli::USAGE)
        }
    }
}
