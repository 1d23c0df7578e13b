//! `windlass config`: what is configured and where, and the user's word that a file counts.

mod defaults;
mod init;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::{note, printable};
use crate::config::{self, Config, FILE, whole};
use crate::inert_json::json_line;
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
    word: Verb,
}

#[derive(Subcommand)]
enum Verb {
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
    /// Tells whether the configuration file says something about this.
    pub(crate) fn is_configured(&self) -> bool {
        matches!(self.word, Verb::Show(_))
    }

    pub(crate) fn carry_out(self, named: Option<&Path>) -> anyhow::Result<ExitCode> {
        let mut stdout = std::io::stdout().lock();
        if let Verb::Schema = self.word {
            let schema = serde_json::to_string_pretty(&windlass_config::schema::json())?;
            writeln!(stdout, "{schema}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let directory = data::directory(self.data)?;
        let list = TrustList::of(&directory);
        match self.word {
            Verb::Show(show) => show.carry_out(named, &directory, self.json, &mut stdout)?,
            Verb::Init(init) => init.carry_out(&directory)?,
            Verb::Schema => {}
            Verb::Trust { list: true, .. } => {
                for Trusted { path, digest } in list.files()? {
                    match self.json {
                        true => writeln!(
                            stdout,
                            "{}",
                            json_line(&json!({"path": path, "digest": digest}))?
                        )?,
                        false => writeln!(
                            stdout,
                            "{}  {}",
                            &digest[..digest.len().min(12)],
                            printable(&path)
                        )?,
                    }
                }
            }
            Verb::Trust { path, .. } => {
                let path = file_of(&path)?;
                let (shown, text) = (printable(&path), text_of(&path)?);
                let config = config::parse(&text, &path)?;
                data::make(&directory)?;
                let Trusted { path, digest } = list.add(&path, &text)?;
                tell_what_it_says(&config);
                match self.json {
                    true => writeln!(
                        stdout,
                        "{}",
                        json_line(&json!({"path": path, "digest": digest}))?
                    )?,
                    false => note(&format!("{shown} is trusted until it is changed")),
                }
            }
            Verb::Untrust { path } => {
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

fn file_of(path: &Path) -> anyhow::Result<PathBuf> {
    match path.is_dir() {
        true => whole(&path.join(FILE)),
        false => whole(path),
    }
}

/// Reads a file that is to be trusted. What could never count where it is found is refused now.
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

/// Says where keys would go, so that nobody trusts it unseen.
fn tell_what_it_says(config: &Config) {
    for (name, provider) in &config.providers {
        if let Some(url) = &provider.base_url {
            note(&format!(
                "requests and the key of {name} go to {:?}",
                without_login(url)
            ));
        }
    }
    if let Some(proxy) = &config.proxy {
        note(&format!(
            "requests to providers go through {:?}",
            without_login(proxy)
        ));
    }
    let allows = |rule: &&config::ApprovalRule| rule.action == config::ApprovalAction::Allow;
    for rule in config.approvals.rules.iter().filter(allows) {
        let (tool, command) = (&rule.tool, &rule.command);
        let command = command.as_deref().map(|command| format!(" {command:?}"));
        let command = command.unwrap_or_default();
        note(&format!(
            "calls of {tool:?}{command} run without a question"
        ));
    }
    if config.approvals.default == Some(config::ApprovalAction::Allow) {
        note("all calls run without a question that no rule matches");
    }
    for host in &config.web.allow {
        note(&format!(
            "pages of {host:?} are read without a question, also where it is private"
        ));
    }
    for (name, entry) in &config.environments {
        let root = printable(&entry.root);
        note(&format!("agents can work in {root}, as {name:?}"));
    }
    if let Some(file) = &config.ca_file {
        note(&format!("certificates of {} are trusted", printable(file)));
    }
}

/// Spells an address without the password that may be in it.
fn without_login(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{}", &rest[end..])
}
