//! `windlass config init`: writes a commented template.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cli::{note, printable};
use crate::config::{self, FILE};

/// Every key with an explanation; all lines are comments.
const TEMPLATE: &str = include_str!("template.toml");

/// Creates a file that explains every key and sets none.
#[derive(Args)]
#[command(after_help = "Examples:\n  windlass config init\n  windlass config init --user")]
pub(super) struct Init {
    /// Directory for `windlass.toml` [default: the current one].
    #[arg(value_name = "DIR", conflicts_with = "user")]
    directory: Option<PathBuf>,
    /// Creates your own file, which applies everywhere.
    #[arg(long)]
    user: bool,
}

impl Init {
    pub(super) fn run(self, data: &Path) -> Result<()> {
        let path = if self.user {
            config::user_file()
                .context("there is no directory for your own file; set HOME or XDG_CONFIG_HOME")?
        } else {
            self.directory.unwrap_or_default().join(FILE)
        };
        let shown = printable(&path);
        if let Some(directory) = path.parent().filter(|_| self.user) {
            let created = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory);
            created.with_context(|| format!("cannot create {}", printable(directory)))?;
        }
        // The user's own file may contain keys, and is rejected if other users can write to it.
        let mode = if self.user { 0o600 } else { 0o644 };
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{shown} exists already; nothing was changed")
            }
            opened => opened.with_context(|| format!("cannot create {shown}"))?,
        };
        let written = file.write_all(TEMPLATE.as_bytes());
        written.with_context(|| format!("cannot write {shown}"))?;
        note(&if self.user {
            format!("created {shown}; its settings apply everywhere")
        } else {
            format!(
                "created {shown}; its settings apply after you run `{}` in its directory, also after each change",
                config::trust_command(data)
            )
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use windlass_config::{Config, Layer, Layers, schema};

    use super::*;

    /// Uncomments every key of the template.
    fn set() -> String {
        let lines = TEMPLATE.lines().map(|line| match line.strip_prefix("#") {
            Some(set) if !set.starts_with(' ') => set,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn template_sets_nothing_and_has_every_key_with_a_valid_value() {
        let nothing = Config::parse(TEMPLATE, Path::new("")).unwrap();
        assert_eq!(nothing, Config::default());
        let mut layers = Layers::default();
        layers.push(Layer::parse(&set(), Path::new(FILE)).unwrap());
        let named = |key: String| {
            let mut words: Vec<&str> = key.split('.').collect();
            if let [
                "providers" | "backends" | "environments" | "mcp_servers" | "secrets"
                | "automations",
                name,
                _,
            ] = words.as_mut_slice()
            {
                *name = "*";
            }
            if let ["mcp_servers", name, _, inner] = words.as_mut_slice() {
                (*name, *inner) = ("*", "*");
            }
            words.join(".")
        };
        let values = layers.values();
        let mut shown: Vec<_> = values.iter().map(|set| named(set.key.clone())).collect();
        shown.sort();
        shown.dedup();
        assert_eq!(shown, schema::keys());
    }
}
