//! Merges a configuration from several sources. Later layers override earlier ones; tables are merged key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::{Table, Value};

use crate::{Config, ConfigError, parse_error};

/// Displayed instead of an API key.
const MASKED: &str = "[set]";

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No source sets the value.
    Default,
    File(PathBuf),
    /// The name of an environment variable.
    Variable(String),
    /// The name of a command-line flag, without dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// The values of one source.
#[derive(Clone)]
pub struct Layer {
    origin: Origin,
    table: Table,
}

impl Layer {
    /// Parses the text of the file at `path`.
    ///
    /// # Errors
    /// If [`Config::parse`] rejects the text, or a number is out of range.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Config::parse(text, Path::new(""))?;
        let table = toml::from_str(text).map_err(|error| parse_error(&error, text))?;
        Ok(Self {
            origin: Origin::File(path.to_owned()),
            table,
        })
    }

    /// Creates a layer without values.
    #[must_use]
    pub fn new(origin: Origin) -> Self {
        let table = Table::new();
        Self { origin, table }
    }

    /// Sets a value; `key` is its path, table by table.
    #[must_use]
    pub fn with(mut self, key: &[&str], value: impl Into<Value>) -> Self {
        let value = key.iter().rev().fold(value.into(), |value, name| {
            Value::Table(Table::from_iter([((*name).to_owned(), value)]))
        });
        if let Value::Table(table) = value {
            merge(&mut self.table, &table);
        }
        self
    }
}

/// Layers that the program built cannot be merged.
#[derive(Debug, Error)]
#[error("the configuration is inconsistent: {0}")]
pub struct MergeError(#[source] toml::de::Error);

/// An effective value with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct SetValue<'a> {
    /// The key, with dots.
    pub key: String,
    /// The value; API keys are masked.
    pub value: Value,
    pub origin: &'a Origin,
}

/// Layers in order of increasing precedence.
#[derive(Clone, Default)]
pub struct Layers(Vec<Layer>);

impl Layers {
    /// Adds a layer that overrides all others.
    pub fn push(&mut self, layer: Layer) {
        self.0.push(layer);
    }

    /// Adds a layer that all others override.
    pub fn push_defaults(&mut self, layer: Layer) {
        self.0.insert(0, layer);
    }

    /// Returns the sources in order of increasing precedence.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.0.iter().map(|layer| &layer.origin)
    }

    /// Merges the layers. Relative paths start at the directory of their file.
    ///
    /// # Errors
    ///
    /// If a layer of [`Layer::with`] contains an unknown key.
    pub fn config(&self) -> Result<Config, MergeError> {
        let mut config: Config = self.merged().try_into().map_err(MergeError)?;
        for (key, path) in config.paths() {
            let mut layers = self.0.iter().rev();
            let source = layers.find(|layer| contains(&layer.table, &key));
            if let Some(Origin::File(file)) = source.map(|layer| &layer.origin) {
                *path = file.parent().unwrap_or(Path::new("")).join(&*path);
            }
        }
        Ok(config)
    }

    fn merged(&self) -> Table {
        let mut merged = Table::new();
        for layer in &self.0 {
            merge(&mut merged, &layer.table);
        }
        merged
    }

    /// Returns the effective values, sorted by key.
    #[must_use]
    pub fn values(&self) -> Vec<SetValue<'_>> {
        let mut values = BTreeMap::new();
        for Layer { origin, table } in &self.0 {
            for (key, leaf) in leaves(table) {
                values.insert(key, (leaf, origin));
            }
        }
        let values = values.into_iter().map(|(key, (leaf, origin))| SetValue {
            key,
            value: if leaf.is_secret {
                MASKED.into()
            } else {
                leaf.value
            },
            origin,
        });
        values.collect()
    }

    /// Returns the keys, with dots, whose values differ from those in `earlier`, in order.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<String> {
        let (now, then) = (leaves(&self.merged()), leaves(&earlier.merged()));
        let keys: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
        let changed = keys
            .into_iter()
            .filter(|key| now.get(*key) != then.get(*key));
        changed.cloned().collect()
    }
}

/// Returns whether a table contains a key.
fn contains(table: &Table, key: &[&str]) -> bool {
    match key {
        [] => true,
        [last] => table.contains_key(*last),
        [first, rest @ ..] => match table.get(*first) {
            Some(Value::Table(table)) => contains(table, rest),
            _ => false,
        },
    }
}

fn merge(into: &mut Table, from: &Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// A value that is not a table.
#[derive(PartialEq)]
struct Leaf {
    value: Value,
    /// Whether it may be an API key, which is never displayed.
    is_secret: bool,
}

/// Returns all values that are not tables, by their keys with dots.
fn leaves(table: &Table) -> BTreeMap<String, Leaf> {
    let mut found = BTreeMap::new();
    collect_leaves("", table, &mut found);
    found
}

fn collect_leaves(parent: &str, table: &Table, found: &mut BTreeMap<String, Leaf>) {
    for (name, value) in table {
        let is_bare =
            |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        let name = if !name.is_empty() && name.chars().all(is_bare) {
            name.clone()
        } else {
            format!("{name:?}")
        };
        let is_secret = name == "api_key" || contains_secrets(parent);
        let key = match parent {
            "" => name,
            parent => format!("{parent}.{name}"),
        };
        match value {
            Value::Table(table) => collect_leaves(&key, table, found),
            value => {
                let value = value.clone();
                found.insert(key, Leaf { value, is_secret });
            }
        }
    }
}

/// Returns whether the values of a table may be secrets: the variables and headers of MCP servers.
fn contains_secrets(table: &str) -> bool {
    let last = table.rsplit('.').next();
    table.starts_with("mcp_servers.") && matches!(last, Some("env" | "headers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> Layers {
        let mut layers = Layers::default();
        layers.push(Layer::new(Origin::Default).with(&["limits", "threads"], 7));
        for (path, text) in [
            (
                "/home/u/windlass.toml",
                "model = 'a/b'\nca_file = 'roots'\nprices_file = 'p'\n[limits]\nthreads = 8\nconnections = 9\n\
                 [providers.openai]\napi_key = 'sk-1'\nmax_parallel_calls = 2\n",
            ),
            (
                "/srv/windlass.toml",
                "prices_file = 'q'\nmodels = ['c/d']\n[limits]\nthreads = 10\n[providers.openai]\nbase_url = 'http://x'\n",
            ),
        ] {
            layers.push(Layer::parse(text, Path::new(path)).unwrap());
        }
        let variable = Layer::new(Origin::Variable("WINDLASS_MODEL".to_owned()));
        layers.push(variable.with(&["model"], "sim"));
        layers
    }

    #[test]
    fn later_layers_override_earlier_ones_by_key() {
        let config = layers().config().unwrap();
        assert_eq!(config.model.as_deref(), Some("sim"));
        assert_eq!(config.limits.threads, Some(10));
        assert_eq!(config.limits.connections, Some(9));
        let openai = &config.providers["openai"];
        assert_eq!(openai.api_key.as_deref(), Some("sk-1"));
        assert_eq!(openai.base_url.as_deref(), Some("http://x"));
        assert_eq!(openai.max_parallel_calls, Some(2));
        assert_eq!(config.ca_file, Some(PathBuf::from("/home/u/roots")));
        assert_eq!(config.prices_file, Some(PathBuf::from("/srv/q")));
    }

    #[test]
    fn values_have_origins_and_masked_keys() {
        let layers = layers();
        let lines: Vec<String> = layers
            .values()
            .iter()
            .map(|set| format!("{} = {:?} of {}", set.key, set.value, set.origin))
            .collect();
        assert_eq!(
            lines,
            [
                r#"ca_file = String("roots") of /home/u/windlass.toml"#,
                "limits.connections = Integer(9) of /home/u/windlass.toml",
                "limits.threads = Integer(10) of /srv/windlass.toml",
                r#"model = String("sim") of WINDLASS_MODEL"#,
                r#"models = Array([String("c/d")]) of /srv/windlass.toml"#,
                r#"prices_file = String("q") of /srv/windlass.toml"#,
                r#"providers.openai.api_key = String("[set]") of /home/u/windlass.toml"#,
                r#"providers.openai.base_url = String("http://x") of /srv/windlass.toml"#,
                "providers.openai.max_parallel_calls = Integer(2) of /home/u/windlass.toml",
            ]
        );
    }

    #[test]
    fn changed_keys_include_masked_ones() {
        let layers_of = |text: &str| {
            let mut layers = Layers::default();
            layers.push(Layer::parse(text, Path::new("/etc/windlass.toml")).unwrap());
            layers
        };
        let before =
            layers_of("model = 'a/b'\n[limits]\nthreads = 1\n[providers.openai]\napi_key = 'sk-1'");
        let after = layers_of(
            "models = ['c/d']\n[limits]\nthreads = 1\n[providers.openai]\napi_key = 'sk-2'",
        );
        let changed = after.changed_since(&before);
        assert_eq!(changed, ["model", "models", "providers.openai.api_key"]);
        assert_eq!(after.changed_since(&after), [""; 0]);
    }

    #[test]
    fn single_layer_equals_the_parsed_file() {
        let text = "model = 'x'\nca_file = 'r'\n[backends.\"a b\"]\nkind = 'acp'\n";
        let path = Path::new("/etc/windlass.toml");
        let mut layers = Layers::default();
        layers.push(Layer::parse(text, path).unwrap());
        let alone = Config::parse(text, Path::new("/etc")).unwrap();
        assert_eq!(layers.config().unwrap(), alone);
        assert_eq!(layers.values()[0].key, r#"backends."a b".kind"#);
    }
}
