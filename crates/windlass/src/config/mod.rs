//! Configuration files: the user's own file, then the file named on the command line or a trusted `windlass.toml`.

pub(crate) mod flags;
pub(crate) mod trust;
pub(crate) mod unknown_tools;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) use windlass_config::{
    ApprovalAction, ApprovalRule, AutomationEntry, BackendEntry, BackendHome, BackendKind,
    BudgetLimits, Checkpoints, Compaction, Config, EnvironmentNetwork, Layer, Layers, Limits,
    MissedRunsPolicy, Notify, Origin, Outputs, Provider, Retention, Runs, Sandbox, SecretEntry,
    ShellConfig, Subagents, Terminal, UnknownModels,
};

use crate::cli::{note, printable};
use crate::data::{self, own_file};
use trust::{TrustList, TrustStatus};

/// The name of the configuration file, in the current directory and in the user's configuration directory.
pub(crate) const FILE: &str = "windlass.toml";

/// Permission bits that let other users change the user's own file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Reads and merges all configuration files.
pub(crate) fn load(named: Option<&Path>, data: &Path) -> Result<Config> {
    Ok(layers(named, data)?.config()?)
}

/// Reads all configuration files in order of increasing precedence: the user's own file, then the named one, else a trusted one in the current
/// directory. An untrusted file is skipped and reported: see [`trust`](crate::config::trust).
pub(crate) fn layers(named: Option<&Path>, data: &Path) -> Result<Layers> {
    let own = user_file();
    let mut layers = user_layers(own.as_deref())?;
    if let Some(path) = named {
        let text = own_file::read_named(path);
        let text = text.with_context(|| path.display().to_string())?;
        layers.push(layer(&text, path)?);
        return Ok(layers);
    }
    let here = Path::new(FILE);
    // The current directory may be the one of the user's own file, which is loaded only once.
    if own.is_some() && own.and_then(|own| own.canonicalize().ok()) == here.canonicalize().ok() {
        return Ok(layers);
    }
    match read_trusted(here, data) {
        Ok(None) => {}
        Ok(Some((path, text))) => layers.push(layer(&text, &path)?),
        Err(why) => {
            let here = std::env::current_dir().unwrap_or_default().join(FILE);
            note(format!("{} is ignored: {why:#}", printable(&here)));
        }
    }
    Ok(layers)
}

/// Reads the settings of the terminal from the user's own file and the named one.
pub(crate) fn of_terminal(named: Option<&Path>) -> Result<Terminal> {
    let mut layers = user_layers(user_file().as_deref())?;
    if let Some(path) = named {
        layers.push(layer(&own_file::read_named(path)?, path)?);
    }
    Ok(layers.config()?.terminal)
}

/// Reads the user's own file, if there is one.
fn user_layers(path: Option<&Path>) -> Result<Layers> {
    let mut layers = Layers::default();
    if let Some(path) = path
        && let Some(text) = read_user_file(path)?
    {
        layers.push(layer(&text, path)?);
    }
    Ok(layers)
}

/// Merges the text of a file over the user's own file.
pub(crate) fn over_own(text: &str, path: &Path) -> Result<Config> {
    let mut layers = user_layers(user_file().as_deref())?;
    layers.push(layer(text, path)?);
    Ok(layers.config()?)
}

/// Warns about unknown tool names.
pub(crate) fn warn_of_unknown_tools(config: &Config) {
    for warning in unknown_tools::warnings(config) {
        note(format!("warning: {warning}"));
    }
}

/// Returns the path of the user's own file, if there is a configuration directory.
pub(crate) fn user_file() -> Option<PathBuf> {
    Some(user_directory()?.join(FILE))
}

/// Returns the directory of the user's own file. That file needs no trust, so its path must not depend on the current directory.
pub(crate) fn user_directory() -> Option<PathBuf> {
    user_directory_by(|name| std::env::var_os(name))
}

fn user_directory_by(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".config"));
    let directory = absolute("XDG_CONFIG_HOME").or_else(home)?;
    Some(directory.join("windlass"))
}

/// Reads the user's own file, if there is one. It is rejected if other users can write to it.
fn read_user_file(path: &Path) -> Result<Option<String>> {
    let shown = printable(path);
    let read = own_file::read(path);
    let read = read.with_context(|| format!("your own configuration {shown} cannot be used"))?;
    let Some(file) = read else { return Ok(None) };
    if file.mode & WRITABLE_BY_OTHERS != 0 {
        bail!(
            "other users can change your own configuration {shown}; check its content, then run `chmod go-w '{shown}'`"
        );
    }
    Ok(Some(file.text))
}

/// Parses the text of a file as one layer.
fn layer(text: &str, path: &Path) -> Result<Layer> {
    // The path comes before the line number: `windlass.toml, line 3: …`.
    Layer::parse(text, path).map_err(|error| anyhow::anyhow!("{}, {error}", printable(path)))
}

/// Parses the text of a file as a complete configuration.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Config> {
    let from = path.parent().unwrap_or(Path::new(""));
    // The path comes before the line number: `windlass.toml, line 3: …`.
    Config::parse(text, from).map_err(|error| anyhow::anyhow!("{}, {error}", printable(path)))
}

/// Returns path and text of a trusted file. If the file is not trusted, reports why it is ignored.
fn read_trusted(path: &Path, data: &Path) -> Result<Option<(PathBuf, String)>> {
    let Some(file) = own_file::read(path)? else {
        return Ok(None);
    };
    let path = absolute(path)?;
    let command = trust_command(data);
    match TrustList::new(data).status(&path, &file.text)? {
        TrustStatus::Trusted => Ok(Some((path, file.text))),
        TrustStatus::Changed => bail!(
            "it has changed since it was trusted; check it, then run `{command}`, or select it with --config"
        ),
        TrustStatus::Unknown => {
            bail!("it is not trusted; check it, then run `{command}`, or select it with --config")
        }
    }
}

/// Returns the absolute path of a file, with symlinks in its parent directories resolved.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    let above = match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    let above = above.canonicalize();
    let above = above.with_context(|| format!("cannot access {}", printable(path)))?;
    Ok(above.join(path.file_name().unwrap_or_default()))
}

/// Returns the command that trusts the file of the current directory.
pub(crate) fn trust_command(data: &Path) -> String {
    if data::default_directory().is_some_and(|default| default == data) {
        "windlass config trust".to_owned()
    } else {
        format!("windlass config trust --data '{}'", printable(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(set: &[(&str, &str)]) -> Option<PathBuf> {
        let of = |name: &str| set.iter().find(|(known, _)| *known == name);
        user_directory_by(|name| of(name).map(|(_, value)| value.into()))
    }

    #[test]
    fn path_of_the_users_file_does_not_depend_on_the_current_directory() {
        for (set, expected) in [
            (&[][..], None),
            (&[("HOME", "/h")], Some("/h/.config/windlass")),
            (
                &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")],
                Some("/c/windlass"),
            ),
            (
                &[("HOME", "/h"), ("XDG_CONFIG_HOME", "c")],
                Some("/h/.config/windlass"),
            ),
            (
                &[("HOME", "/h"), ("XDG_CONFIG_HOME", "")],
                Some("/h/.config/windlass"),
            ),
            (&[("HOME", "h")], None),
        ] {
            assert_eq!(directory(set), expected.map(PathBuf::from), "{set:?}");
        }
    }
}
