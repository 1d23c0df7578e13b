//! `windlass demo`: kills the agent in the middle of a tool call and shows the recovery.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cli::FAILED;
use crate::config::Sandbox;
use crate::daemon::secrets_key;
use crate::model::demonstration::{COUNT_FILE, COUNT_PROMPT};
use crate::sandbox;
use crate::terminal::{Colour, SavedTerminalModes, Style};

/// The agent is killed when the count reaches this number.
const KILLED_AT: usize = 4;
/// Time limit for the count to reach it.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// Kills an agent in the middle of a tool call, resumes its turn, and explains the result. Needs no model and no network.
#[derive(Args)]
pub(crate) struct Demo {}

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if !sandbox::ways(Sandbox::Auto)
            .iter()
            .any(|way| way.works_here())
        {
            bail!(
                "no sandbox works on this machine, so commands cannot run; `windlass doctor` explains what is missing"
            );
        }
        let style = Style::for_stderr();
        let say = |colour, text: &str| writeln!(io::stderr(), "{}", style.paint(colour, text));
        let demo = DemoDirectory::new()?;
        let terminal = SavedTerminalModes::now();
        say(
            Colour::Bold,
            "1. An agent counts to twelve with a command in a sandbox.",
        )?;
        let mut child = demo.agent(&["run", "--yes", COUNT_PROMPT])?;
        demo.wait_for(KILLED_AT, &mut child)?;
        let pid = child.id();
        child.kill().context("the agent cannot be killed")?;
        let killed = child.wait()?;
        // The killed process could not turn the echo on again.
        terminal.restore();
        let before = demo.counted();
        writeln!(io::stderr())?;
        say(
            Colour::Bold,
            &format!("2. kill -9 {pid}, in the middle of the command: the count was {before}."),
        )?;
        if killed.signal().is_none() {
            bail!("the agent ended before it could be killed; try again");
        }
        say(
            Colour::Bold,
            "3. Another process resumes the turn: windlass run --continue.",
        )?;
        let status = demo.agent(&["run", "--continue", "--no-hint"])?.wait()?;
        if !status.success() {
            return Ok(ExitCode::from(FAILED));
        }
        let after = demo.counted();
        say(Colour::Bold, "\nThis shows:")?;
        let results = [
            "the prompt, the call and all text before the kill were on disk: nothing was lost".to_owned(),
            "the command must not run twice, so it was not repeated: its result states that the outcome is unknown".to_owned(),
            format!("the file had {before} lines at the kill and has {after} now: the remaining process of the command was ended too"),
            "the turn ended once, with an answer, in the process that resumed it".to_owned(),
        ];
        for result in results {
            writeln!(io::stderr(), "  - {result}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A temporary directory with its own data, removed on drop.
struct DemoDirectory {
    directory: tempfile::TempDir,
}

impl DemoDirectory {
    fn new() -> Result<Self> {
        // Not below `/tmp`: a sandbox has a private one.
        let directory = tempfile::tempdir_in("/var/tmp").or_else(|_| tempfile::tempdir());
        let directory = directory.context("cannot create a temporary directory")?;
        std::fs::create_dir(directory.path().join("work"))?;
        Ok(Self { directory })
    }

    /// Starts this program again, with the demonstration model and without the user's settings.
    fn agent(&self, arguments: &[&str]) -> Result<Child> {
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.directory.path().join("work"))
            .env("WINDLASS_DATA", self.directory.path().join("data"))
            .env("WINDLASS_MODEL", "demonstration")
            // An empty configuration directory, so that no configuration affects the demonstration.
            .env("XDG_CONFIG_HOME", self.directory.path().join("config"))
            .env_remove(secrets_key::FILE_VARIABLE);
        command.spawn().context("the agent cannot be started")
    }

    /// Waits until the counter reaches `count`.
    fn wait_for(&self, count: usize, child: &mut Child) -> Result<()> {
        let begun = Instant::now();
        while self.counted() < count {
            if child.try_wait()?.is_some() || begun.elapsed() > COUNT_TIMEOUT {
                bail!("the agent did not start its command");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn counted(&self) -> usize {
        let file: &Path = &self.directory.path().join("work").join(COUNT_FILE);
        std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
    }
}
