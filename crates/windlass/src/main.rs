//! The command line of Windlass. Data goes to stdout, everything else to stderr.

mod backends;
mod cli;
mod client;
mod commands;
mod config;
mod daemon;
mod data;
mod inert_json;
mod local_time;
mod log;
mod model;
mod piped;
mod sandbox;
mod sandbox_launcher;
mod stdio_rpc;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use cli::{Cli, Command};

fn main() -> ExitCode {
    match sandbox_launcher::command(std::env::args_os()) {
        Some(command) => windlass_tools::become_proxied(command),
        None => run(),
    }
}

#[tokio::main]
async fn run() -> ExitCode {
    let Cli { global, command } = cli::parse();
    if global.config.is_some() && !command.is_configured() {
        cli::note("--config has no effect on this command");
    }
    let done = match command {
        Command::Run(run) => run.run(global).await,
        Command::Chat(chat) => chat.run(global).await,
        Command::Demo(demo) => demo.run(),
        Command::Replay(replay) => replay.run(global).await,
        Command::Threads(threads) => threads.run(global).await,
        Command::Events(events) => events.run(global).await,
        Command::Tasks(tasks) => tasks.run(global).await,
        Command::Automations(automations) => automations.run(global).await,
        Command::Prompt(prompt) => Box::pin(prompt.run(global)).await,
        Command::Doctor(doctor) => doctor.run(global).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "windlass", &mut script);
            let written = std::io::stdout().write_all(&script);
            written.map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Acp(acp) => acp.run(global).await,
        Command::Mcp(mcp) => mcp.run(global).await,
        Command::Runs(runs) => runs.run().await,
        Command::Token(token) => token.run(),
        Command::Console(console) => console.run().await,
        Command::Approvals(approvals) => approvals.run(),
        Command::Store(store) => store.run().await,
        Command::Config(config_command) => config_command.run(global),
        Command::Backends(backends) => backends.run(global).await,
        Command::Serve(serve) => {
            let served = Box::pin(serve.run(global)).await;
            served.map(|()| ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => cli::failed(&error, cli::USAGE),
    }
}
