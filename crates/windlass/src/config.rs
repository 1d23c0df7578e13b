//! Which configuration counts: the file that is named, or a `windlass.toml` that the user has trusted.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) use windlass_config::{
    BackendEntry, BackendHome, BackendKind, Config, Limits, Provider, Retention, Runs, Sandbox,
    Shell, UnknownModels,
};

use crate::cli::{note, printable};
use crate::trust::{TrustList, TrustStatus};
use crate::{data, own_file};

/// The file that is looked for in the current directory.
pub(crate) const FILE: &str = "windlass.toml";

/// Reads the file that is named, else the one in the current directory, if the user has trusted it. One that nobody
/// trusted is left out, and one line says so: see [`trust`](crate::trust).
pub(crate) fn load(named: Option<&Path>, data: &Path) -> Result<Config> {
    if let Some(path) = named {
        let text = own_file::read_named(path);
        let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
        return parse(&text, path);
    }
    match found(Path::new(FILE), data) {
        Ok(None) => Ok(Config::default()),
        Ok(Some((path, text))) => parse(&text, &path),
        Err(why) => {
            let here = std::env::current_dir().unwrap_or_default().join(FILE);
            note(&format!("{} is ignored: {why:#}", printable(&here)));
            Ok(Config::default())
        }
    }
}

/// Reads the text of the file at a path.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Config> {
    let from = path.parent().unwrap_or(Path::new(""));
    // The path stands before the line: `windlass.toml, line 3: …`.
    Config::parse(text, from).map_err(|error| anyhow::anyhow!("{}, {error}", printable(path)))
}

/// Returns the path and the text of a file that the user has trusted; says why another does not count.
fn found(path: &Path, data: &Path) -> Result<Option<(PathBuf, String)>> {
    let Some(file) = own_file::read(path)? else {
        return Ok(None);
    };
    let path = whole(path)?;
    let command = trust_command(data);
    match TrustList::of(data).standing(&path, &file.text)? {
        TrustStatus::Trusted => Ok(Some((path, file.text))),
        TrustStatus::Changed => bail!(
            "it was changed since it was trusted; read it, then run `{command}`, or name it with --config"
        ),
        TrustStatus::Unknown => bail!(
            "it was found here and nobody has trusted it; read it, then run `{command}`, or name it with --config"
        ),
    }
}

/// Returns the absolute path of a file, without links above it.
pub(crate) fn whole(path: &Path) -> Result<PathBuf> {
    let above = match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    let above = above.canonicalize();
    let above = above.with_context(|| format!("{} cannot be reached", printable(path)))?;
    Ok(above.join(path.file_name().unwrap_or_default()))
}

/// Returns what to type to trust the file of the current directory.
fn trust_command(data: &Path) -> String {
    match data == data::usual() {
        true => "windlass config trust".to_owned(),
        false => format!("windlass config trust --data '{}'", printable(data)),
    }
}
