//! `windlass console`: opens the web console of a running daemon, logged in.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use windlass_server::Logins;

use crate::cli::{note, printable, set_variable};
use crate::client::connect::running_daemon;
use crate::commands::data_options::DataOptions;
use crate::data::{self, private_file};
use crate::inert_json::write_json;

/// The page that leads a browser to the link.
const LINK_FILE: &str = "console.html";

/// Prints a link to the web console of a running daemon, and opens it if there is a browser.
#[derive(Args)]
#[command(after_help = "\
The link contains a code that logs one browser in, once and within five minutes.")]
pub(crate) struct Console {
    #[command(flatten)]
    options: DataOptions,
    /// Prints the link and opens no browser.
    #[arg(long)]
    print: bool,
    /// Logs all browsers out instead.
    #[arg(long, conflicts_with = "print")]
    log_out_all: bool,
}

impl Console {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let directory = self.options.directory()?;
        data::check(&directory)?;
        let logins = Logins::new(&directory);
        if self.log_out_all {
            let count = logins.log_out_all()?;
            note(format!("{count} browser sessions ended"));
            return Ok(ExitCode::SUCCESS);
        }
        let Some(info) = running_daemon(&directory).await? else {
            bail!(
                "no daemon runs on {}; start one with `windlass serve`",
                printable(&directory)
            );
        };
        let Some(url) = info.console_url else {
            bail!(
                "the process that uses {} serves no console: it has no port, or its address needs TLS (serve --public-url)",
                printable(&directory)
            );
        };
        let link = login_link(&url, &logins)?;
        let mut stdout = std::io::stdout().lock();
        if self.options.json {
            write_json(&mut stdout, &json!({ "url": link }))?;
        } else {
            writeln!(stdout, "{link}")?;
            if !self.print && has_browser() {
                open_browser(&directory, &link)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns a link that logs one browser in. The code is in the fragment, which browsers send to no server.
pub(crate) fn login_link(url: &str, logins: &Logins) -> anyhow::Result<String> {
    let code = logins.create_code();
    let code = code.context("cannot create a code for the login of a browser")?;
    Ok(format!("{url}login#{code}"))
}

/// Returns whether the user sees a browser that this command starts: not in a pipe, and not over SSH.
fn has_browser() -> bool {
    let has_display = cfg!(target_os = "macos")
        || set_variable("DISPLAY").is_some()
        || set_variable("WAYLAND_DISPLAY").is_some();
    has_display && std::io::stdout().is_terminal()
}

/// Opens the link through a file that only the user can read, because other users can read the arguments of programs.
fn open_browser(directory: &Path, link: &str) -> anyhow::Result<()> {
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={link}\"><a href=\"{link}\">Windlass</a>\n"
    );
    let file = private_file::write(directory, LINK_FILE, &page);
    let file = file.with_context(|| format!("cannot write to {}", printable(directory)))?;
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(opener);
    command.arg(file).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        note("no browser could be started; open the link yourself");
    }
    Ok(())
}
