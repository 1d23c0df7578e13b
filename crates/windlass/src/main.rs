//! Windlass on the command line. Data goes to stdout, everything else to stderr.

mod backends;
mod calls;
mod cli;
mod commands;
mod config;
mod config_flags;
mod daemon;
mod data;
mod data_modes;
mod demonstration;
mod follow;
mod ids;
mod inert_json;
mod local_time;
mod log;
mod model;
mod own_file;
mod piped;
mod private_file;
mod proxied;
mod reach;
mod sandbox;
mod stdio_rpc;
#[cfg(test)]
mod stub_api;
mod talk;
mod terminal;
mod trust;
mod unknown_tools;

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use cli::{Cli, Command};

fn main() -> ExitCode {
    match proxied::command(std::env::args_os()) {
        Some(command) => windlass_tools::become_proxied(command),
        None => carry_out(),
    }
}

#[tokio::main]
async fn carry_out() -> ExitCode {
    let Cli {
        workspace,
        config,
        command,
    } = cli::parse();
    let config = config.as_deref();
    if config.is_some() && !command.is_configured() {
        cli::note("--config has no effect on this command");
    }
    let done = match command {
        Command::Run(run) => run.carry_out(workspace, config).await,
        Command::Chat(chat) => chat.carry_out(workspace, config).await,
        Command::Demo(demo) => demo.carry_out(),
        Command::Replay(replay) => replay.carry_out(config).await,
        Command::Threads(threads) => threads.carry_out(config).await,
        Command::Events(events) => events.carry_out(config).await,
        Command::Tasks(tasks) => tasks.carry_out(workspace, config).await,
        Command::Automations(automations) => automations.carry_out(workspace, config).await,
        Command::Doctor(doctor) => doctor.carry_out(config).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "windlass", &mut script);
            let written = std::io::stdout().write_all(&script);
            written.map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Acp(acp) => acp.carry_out(workspace, config).await,
        Command::Mcp(mcp) => mcp.carry_out(workspace, config).await,
        Command::Runs(runs) => runs.carry_out().await,
        Command::Token(token) => token.carry_out(),
        Command::Approvals(approvals) => approvals.carry_out(),
        Command::Store(store) => store.carry_out().await,
        Command::Config(words) => words.carry_out(config),
        Command::Backends(backends) => backends.carry_out(workspace, config).await,
        Command::Serve(serve) => {
            let served = Box::pin(serve.carry_out(workspace, config)).await;
            served.map(|()| ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => cli::failed(&error, cli::USAGE),
    }
}
