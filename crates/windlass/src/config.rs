//! What is configured: `windlass.toml`, and the variables that people have set already.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::cli::{note, printable};
use crate::trust::{TrustList, TrustStatus};
use crate::{data, own_file};

/// The file that is looked for in the current directory.
pub(crate) const FILE: &str = "windlass.toml";

/// The configuration file. Keys are better kept in the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The model, as `provider/model`.
    pub(crate) model: Option<String>,
    /// Further models that clients of the daemon can name, as `provider/model`.
    pub(crate) models: Vec<String>,
    /// What becomes of other names that clients of the daemon write.
    pub(crate) unknown_models: UnknownModels,
    /// How much clients of the daemon may ask for.
    pub(crate) limits: Limits,
    /// How the daemon traces runs.
    pub(crate) runs: Runs,
    /// What commands of the daemon's agent may use.
    pub(crate) shell: Shell,
    /// What the daemon removes, and when.
    pub(crate) retention: Retention,
    /// A file with the key that secrets of sessions are sealed with.
    pub(crate) secrets_key_file: Option<PathBuf>,
    /// The proxy for calls to providers.
    pub(crate) proxy: Option<String>,
    /// A PEM file of certificates to trust beside the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// A price list of one's own.
    pub(crate) prices_file: Option<PathBuf>,
    /// Settings by provider.
    pub(crate) providers: BTreeMap<String, Provider>,
    /// Agents of others that can carry turns, by the names that threads use.
    pub(crate) backends: BTreeMap<String, BackendEntry>,
}

/// An agent of others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BackendEntry {
    /// How it is spoken to; its name says so where it is one of these.
    pub(crate) kind: Option<BackendKind>,
    /// Its program, where that is not the usual one.
    pub(crate) command: Option<PathBuf>,
    /// Arguments beside those by which it is driven.
    pub(crate) arguments: Vec<String>,
    /// The model that it is to ask for.
    pub(crate) model: Option<String>,
    /// The daemon's variables that it gets, by name, such as one with a key.
    pub(crate) variables: Vec<String>,
    /// Whose home directory it has.
    pub(crate) home: BackendHome,
    /// For how many seconds it may be silent while it works; 0 is for ever.
    pub(crate) silence_seconds: Option<u64>,
    /// How many seconds a turn may take.
    pub(crate) turn_seconds: Option<u64>,
}

/// How an agent of others is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BackendKind {
    ClaudeCode,
    Codex,
    Gemini,
    /// Any other that speaks the Agent Client Protocol.
    Acp,
}

impl BackendKind {
    /// Returns its name, as it is configured.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Acp => "acp",
        }
    }
}

/// Whose home directory an agent of others has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BackendHome {
    /// The user's, of which it sees its own settings and where it works: its login is there.
    #[default]
    User,
    /// One of its own in the data directory.
    Own,
}

/// What becomes of the name of a model that is not configured.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnknownModels {
    /// The provider of the default model is asked for it.
    #[default]
    DefaultProvider,
    /// The request is refused.
    Refuse,
}

/// How much clients of the daemon may ask for; what is not set stays as it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Bytes of a body.
    pub(crate) body_bytes: Option<usize>,
    /// Threads.
    pub(crate) threads: Option<usize>,
    /// Event streams that are open at once.
    pub(crate) subscribers: Option<usize>,
    /// Connections that are open at once.
    pub(crate) connections: Option<usize>,
    /// Calls of a thread that wait for a client.
    pub(crate) pending_calls: Option<usize>,
    /// Words to a running turn that it has not read yet.
    pub(crate) waiting_inputs: Option<usize>,
    /// How long a turn waits for somebody, in seconds.
    pub(crate) wait_seconds: Option<u64>,
}

/// How the daemon traces runs; what is not set stays as it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Runs {
    /// How long a run waits for the end of its lost connection's last words, in milliseconds.
    pub(crate) grace_ms: Option<u64>,
    /// How long a run waits to be taken up again, in milliseconds.
    pub(crate) lease_ms: Option<u64>,
    /// For how many days ended runs are kept; for ever if nothing is said.
    pub(crate) keep_days: Option<u32>,
    /// How many bytes a message may have.
    pub(crate) message_bytes: Option<usize>,
}

/// What commands may use; what is not set stays as it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shell {
    /// How programs are confined.
    pub(crate) sandbox: Sandbox,
    /// How much memory each process may use for its data, in megabytes; 0 is any.
    pub(crate) max_memory_mb: Option<u64>,
    /// How many processes and threads a command may have at once, where it has a sandbox of namespaces; 0 is any.
    pub(crate) max_processes: Option<u64>,
}

/// How commands, and programs that look at a workspace, are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sandbox {
    /// By bubblewrap where it works, else by landlock.
    #[default]
    Auto,
    /// By bubblewrap and nothing else.
    Bubblewrap,
    /// By landlock and nothing else.
    Landlock,
    /// By nothing: they are refused.
    None,
}

/// What the daemon removes of ended turns; what is not set is kept.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    /// For how many days records are kept.
    pub(crate) max_age_days: Option<u32>,
    /// How many bytes the database may use; the oldest records go first.
    pub(crate) max_bytes: Option<u64>,
    /// For how many hours pieces of streamed text are kept. Later records hold the text whole.
    pub(crate) text_chunk_hours: Option<u32>,
    /// How often the database is looked after, in minutes; 0 is never, 60 if nothing is said.
    pub(crate) every_minutes: Option<u32>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Provider {
    pub(crate) api_key: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) max_parallel_calls: Option<usize>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("api_key", &self.api_key.as_ref().map(|_| "[set]"))
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Reads the file that is named, else the one in the current directory, if the user has trusted it. One that nobody
    /// trusted is left out, and one line says so: see [`trust`](crate::trust).
    pub(crate) fn load(named: Option<&Path>, data: &Path) -> Result<Self> {
        if let Some(path) = named {
            let text = own_file::read_named(path);
            let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
            return Self::parse(&text, path);
        }
        match found(Path::new(FILE), data) {
            Ok(None) => Ok(Self::default()),
            Ok(Some((path, text))) => Self::parse(&text, &path),
            Err(why) => {
                let here = std::env::current_dir().unwrap_or_default().join(FILE);
                note(&format!("{} is ignored: {why:#}", printable(&here)));
                Ok(Self::default())
            }
        }
    }

    /// Reads the text of a file. Paths in it start from where it is, not from where somebody happens to stand.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        // The message of the parser shows the line, which may hold a key; its place says enough.
        let mut config: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or("", |span| &text[..span.start]);
            let line = before.matches('\n').count() + 1;
            anyhow::anyhow!("{}, line {line}: {}", printable(path), error.message())
        })?;
        let from = path.parent().unwrap_or(Path::new(""));
        let files = [
            &mut config.secrets_key_file,
            &mut config.ca_file,
            &mut config.prices_file,
        ];
        for file in files.into_iter().flatten() {
            *file = from.join(&*file);
        }
        Ok(config)
    }
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
