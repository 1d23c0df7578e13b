//! `windlass config`: shows the configuration and its files, and marks files as trusted.

mod defaults;
mod effects;
mod init;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use crate::cli::{GlobalOptions, error_text, note, printable};
use crate::commands::data_options::DataOptions;
use crate::config::trust::{TrustList, TrustedFile};
use crate::config::{self, Config, FILE, absolute};
use crate::daemon::check::ConfigCheck;
use crate::data::{self, own_file};
use crate::inert_json::{write_json, write_value};

/// Shows and creates configuration files, and controls which ones apply. A `windlass.toml` in a directory may come from a stranger
/// and determines where API keys are sent, so it is ignored until it is trusted, and again after each change.
#[derive(Args)]
pub(crate) struct ConfigCommand {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Shows each effective value and its origin. API keys are masked.
    Show(show::Show),
    /// Creates a file that explains every key and sets none.
    Init(init::Init),
    /// Writes a JSON Schema of the file, for editors.
    #[command(after_help = "Example: windlass config schema > ~/.config/windlass/schema.json")]
    Schema,
    /// Trusts a file with its current content.
    #[command(
        after_help = "Examples:\n  windlass config trust\n  windlass config trust ~/project/windlass.toml\n  \
                            windlass config trust --list"
    )]
    Trust {
        /// File, or its directory.
        #[arg(default_value = FILE)]
        path: PathBuf,
        /// Lists the trusted files instead.
        #[arg(long, conflicts_with = "path")]
        list: bool,
    },
    /// Revokes the trust in a file.
    Untrust {
        /// File, which may no longer exist, or its directory.
        #[arg(default_value = FILE)]
        path: PathBuf,
    },
}

impl ConfigCommand {
    /// Returns whether this subcommand reads the configuration.
    pub(crate) fn is_configured(&self) -> bool {
        matches!(self.subcommand, Subcommand::Show(_))
    }

    pub(crate) fn run(self, global: GlobalOptions) -> anyhow::Result<ExitCode> {
        let named = global.config.as_deref();
        let mut stdout = std::io::stdout().lock();
        if let Subcommand::Schema = self.subcommand {
            let schema = serde_json::to_string_pretty(&windlass_config::schema::json())?;
            writeln!(stdout, "{schema}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let directory = self.options.directory()?;
        let list = TrustList::new(&directory);
        match self.subcommand {
            Subcommand::Show(show) => {
                show.run(named, &directory, self.options.json, &mut stdout)?
            }
            Subcommand::Init(init) => init.run(&directory)?,
            Subcommand::Schema => {}
            Subcommand::Trust { list: true, .. } => {
                let files = list.files()?;
                if files.is_empty() {
                    note(
                        "no file is trusted yet; `windlass config trust` trusts the file of the current directory",
                    );
                }
                for TrustedFile { path, digest } in files {
                    let start = &digest[..digest.len().min(12)];
                    let line = format!("{start}  {}", printable(&path));
                    let file = json!({"path": path, "digest": digest});
                    write_value(&mut stdout, self.options.json, &file, &line)?;
                }
            }
            Subcommand::Trust { path, .. } => {
                // If `--config` names a file, the user means that file, so the one in the current directory must not be trusted instead.
                if let Some(named) = named
                    && path == Path::new(FILE)
                {
                    let named = printable(named);
                    bail!(
                        "nothing was trusted: --config has no effect here; use `windlass config trust {named}` to trust that file"
                    );
                }
                let path = file_of(&path)?;
                let (shown, text) = (printable(&path), read_to_trust(&path)?);
                let config = config::parse(&text, &path)?;
                data::create(&directory)?;
                let TrustedFile { path, digest } = list.add(&path, &text)?;
                effects::note_effects(&config);
                let workspace = path.parent().unwrap_or(Path::new("/"));
                warn_if_rejected(&config::over_own(&text, &path)?, &directory, workspace);
                if self.options.json {
                    write_json(&mut stdout, &json!({"path": path, "digest": digest}))?
                } else {
                    note(format!("{shown} is trusted until it changes"))
                }
            }
            Subcommand::Untrust { path } => {
                let path = file_of(&path)?;
                if !directory.is_dir() || !list.remove(&path)? {
                    bail!(
                        "{} is not trusted; `windlass config trust --list` lists the trusted files",
                        printable(&path)
                    );
                }
                note(format!("{} is no longer trusted", printable(&path)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Warns about settings that a daemon would reject. They are not errors here: a missing variable may be set where the daemon starts.
fn warn_if_rejected(config: &Config, data: &Path, workspace: &Path) {
    let check = ConfigCheck {
        config,
        data,
        workspace,
        model: None,
        has_agents: true,
    };
    if let Err(error) = check.all() {
        note(format!(
            "warning: `windlass run` and `windlass serve` reject this configuration: {}",
            error_text(&error)
        ));
    }
}

fn file_of(path: &Path) -> anyhow::Result<PathBuf> {
    if path.is_dir() {
        absolute(&path.join(FILE))
    } else {
        absolute(path)
    }
}

/// Reads a file that is to be trusted. Files that the configuration would never load are rejected.
fn read_to_trust(path: &Path) -> anyhow::Result<String> {
    let shown = printable(path);
    if path.file_name() != Some(FILE.as_ref()) {
        bail!(
            "only files named {FILE} are loaded automatically; use {shown} with --config instead"
        );
    }
    let read = own_file::read(path);
    let read = read.with_context(|| {
        format!("{shown} cannot be trusted; nothing was changed. Use --config to load it anyway")
    })?;
    let file = read.with_context(|| format!("there is no file {shown}"))?;
    Ok(file.text)
}
