//! `windlass config`: shows the configuration and its files, and marks files as trusted.

mod defaults;
mod init;
mod show;
mod told;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use crate::cli::{note, printable, words};
use crate::config::{self, Config, FILE, whole};
use crate::daemon::check::Check;
use crate::inert_json::{json_line, write_value};
use crate::trust::{TrustList, Trusted};
use crate::{data, own_file};

/// Shows and begins the configuration, and says which files count. A `windlass.toml` that is found in a directory may come from
/// a stranger, and it says where keys are sent; it is ignored until it was trusted, and again once it was changed.
#[derive(Args)]
pub(crate) struct ConfigWords {
    /// The data directory that keeps what was trusted [default: the user's own].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Shows every value that counts, and where it comes from. Keys are masked.
    Show(show::Show),
    /// Writes a file that explains every key, and sets none.
    Init(init::Init),
    /// Writes a JSON schema of the file, for editors.
    #[command(after_help = "Example: windlass config schema > ~/.config/windlass/schema.json")]
    Schema,
    /// Trusts a file as it is now.
    #[command(
        after_help = "Examples:\n  windlass config trust\n  windlass config trust ~/project/windlass.toml\n  \
                            windlass config trust --list"
    )]
    Trust {
        /// The file, or the directory it is in.
        #[arg(default_value = FILE)]
        path: PathBuf,
        /// Lists what was trusted instead.
        #[arg(long, conflicts_with = "path")]
        list: bool,
    },
    /// Trusts a file no longer.
    Untrust {
        /// The file, or the directory it is in; it may be gone.
        #[arg(default_value = FILE)]
        path: PathBuf,
    },
}

impl ConfigWords {
    /// Returns whether this subcommand reads the configuration.
    pub(crate) fn is_configured(&self) -> bool {
        matches!(self.subcommand, Subcommand::Show(_))
    }

    pub(crate) fn run(self, named: Option<&Path>) -> anyhow::Result<ExitCode> {
        let mut stdout = std::io::stdout().lock();
        if let Subcommand::Schema = self.subcommand {
            let schema = serde_json::to_string_pretty(&windlass_config::schema::json())?;
            writeln!(stdout, "{schema}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let directory = data::directory(self.data)?;
        let list = TrustList::of(&directory);
        match self.subcommand {
            Subcommand::Show(show) => show.run(named, &directory, self.json, &mut stdout)?,
            Subcommand::Init(init) => init.run(&directory)?,
            Subcommand::Schema => {}
            Subcommand::Trust { list: true, .. } => {
                let files = list.files()?;
                if files.is_empty() {
                    note(
                        "no file is trusted yet; `windlass config trust` trusts that of a directory",
                    );
                }
                for Trusted { path, digest } in files {
                    let start = &digest[..digest.len().min(12)];
                    let line = format!("{start}  {}", printable(&path));
                    let file = json!({"path": path, "digest": digest});
                    write_value(&mut stdout, self.json, &file, &line)?;
                }
            }
            Subcommand::Trust { path, .. } => {
                // If `--config` names a file, the user means that file, so the one in the current directory must not be trusted instead.
                if let Some(named) = named
                    && path == Path::new(FILE)
                {
                    let named = printable(named);
                    bail!(
                        "nothing was trusted: --config has no effect here; `windlass config trust {named}` trusts that file"
                    );
                }
                let path = file_of(&path)?;
                let (shown, text) = (printable(&path), text_of(&path)?);
                let config = config::parse(&text, &path)?;
                data::make(&directory)?;
                let Trusted { path, digest } = list.add(&path, &text)?;
                told::tell(&config);
                let place = path.parent().unwrap_or(Path::new("/"));
                warn_of_refused(&config::over_own(&text, &path)?, &directory, place);
                if self.json {
                    writeln!(
                        stdout,
                        "{}",
                        json_line(&json!({"path": path, "digest": digest}))?
                    )?
                } else {
                    note(&format!("{shown} is trusted until it is changed"))
                }
            }
            Subcommand::Untrust { path } => {
                let path = file_of(&path)?;
                if !directory.is_dir() || !list.remove(&path)? {
                    bail!(
                        "{} was not trusted; `windlass config trust --list` shows what is",
                        printable(&path)
                    );
                }
                note(&format!("{} is no longer trusted", printable(&path)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Warns about settings that a daemon would reject. They are not errors here: a missing variable may be set where the daemon starts.
fn warn_of_refused(config: &Config, data: &Path, workspace: &Path) {
    let check = Check {
        config,
        data,
        workspace,
        model: None,
        has_agents: true,
    };
    if let Err(error) = check.all() {
        note(&format!(
            "warning: `windlass run` and `windlass serve` refuse this configuration: {}",
            words(&error)
        ));
    }
}

fn file_of(path: &Path) -> anyhow::Result<PathBuf> {
    if path.is_dir() {
        whole(&path.join(FILE))
    } else {
        whole(path)
    }
}

/// Reads a file that is to be trusted. Files that the configuration would never load are rejected.
fn text_of(path: &Path) -> anyhow::Result<String> {
    let shown = printable(path);
    if path.file_name() != Some(FILE.as_ref()) {
        bail!("{shown} is never looked for, only {FILE} is; name it with --config instead");
    }
    let read = own_file::read(path);
    let read = read.with_context(|| {
        format!("{shown} cannot be trusted; nothing was changed. What is right can be named with --config")
    })?;
    let file = read.with_context(|| format!("there is no {shown}"))?;
    Ok(file.text)
}
