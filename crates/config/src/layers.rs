//! A configuration that comes from several places. Later ones win, and tables are merged key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::{Table, Value};

use crate::{Config, ConfigError, refused};

/// What is shown in place of a key of a provider.
const MASKED: &str = "[set]";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No source set it.
    Default,
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
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

/// What one place says.
#[derive(Clone)]
pub struct Layer {
    origin: Origin,
    table: Table,
}

impl Layer {
    /// Reads the text of the file at a path.
    ///
    /// # Errors
    /// If [`Config::parse`] refuses it, or it holds a number that is larger than any that counts.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Config::parse(text, Path::new(""))?;
        let table = toml::from_str(text).map_err(|error| refused(&error, text))?;
        Ok(Self {
            origin: Origin::File(path.to_owned()),
            table,
        })
    }

    /// Says nothing yet.
    #[must_use]
    pub fn of(origin: Origin) -> Self {
        Self {
            origin,
            table: Table::new(),
        }
    }

    /// Says one thing more; `key` is the way to it, table by table.
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

    /// Returns where it comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Layers that a program made do not fit together.
#[derive(Debug, Error)]
#[error("the configuration does not fit together: {0}")]
pub struct MergeError(#[source] toml::de::Error);

/// A value with the place that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct SetValue<'a> {
    /// Its key, with dots.
    pub key: String,
    /// The value; a key of a provider is masked.
    pub value: Value,
    /// Who said it.
    pub origin: &'a Origin,
}

/// All places, the weakest first.
#[derive(Clone, Default)]
pub struct Layers(Vec<Layer>);

impl Layers {
    /// Adds a layer that wins over all before it.
    pub fn push(&mut self, layer: Layer) {
        self.0.push(layer);
    }

    /// Returns where values may come from, the weakest first.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.0.iter().map(Layer::origin)
    }

    /// Merges the layers. Relative paths start at the directory of their file.
    ///
    /// # Errors
    ///
    /// If a layer of [`Layer::with`] contains an unknown key.
    pub fn config(&self) -> Result<Config, MergeError> {
        let mut merged = Table::new();
        for layer in &self.0 {
            merge(&mut merged, &layer.table);
        }
        let mut config: Config = merged.try_into().map_err(MergeError)?;
        for (key, named) in config.paths() {
            let mut last = self.0.iter().rev();
            let said = last.find(|layer| says(&layer.table, &key));
            if let Some(Origin::File(path)) = said.map(Layer::origin) {
                *named = path.parent().unwrap_or(Path::new("")).join(&*named);
            }
        }
        Ok(config)
    }

    /// Returns every value that counts, in the order of the keys.
    #[must_use]
    pub fn values(&self) -> Vec<SetValue<'_>> {
        let mut values: Vec<SetValue<'_>> = Vec::new();
        for layer in &self.0 {
            let mut said = Vec::new();
            leaves("", &layer.table, &mut said);
            for Leaf { key, value, is_key } in said {
                values.retain(|known| known.key != key);
                values.push(SetValue {
                    key,
                    value: if is_key { MASKED.into() } else { value },
                    origin: &layer.origin,
                });
            }
        }
        values.sort_by(|a, b| a.key.cmp(&b.key));
        values
    }
}

impl Layers {
    /// Returns the keys, with dots, of which these layers say something else than others, in order.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<String> {
        let (now, then) = (self.said(), earlier.said());
        let differs = |key: &&String| now.get(*key) != then.get(*key);
        let keys: BTreeSet<_> = now.keys().chain(then.keys()).filter(differs).collect();
        keys.into_iter().cloned().collect()
    }

    fn said(&self) -> BTreeMap<String, Value> {
        let mut merged = Table::new();
        for layer in &self.0 {
            merge(&mut merged, &layer.table);
        }
        let mut said = Vec::new();
        leaves("", &merged, &mut said);
        said.into_iter()
            .map(|leaf| (leaf.key, leaf.value))
            .collect()
    }
}

impl IntoIterator for Layers {
    type Item = Layer;
    type IntoIter = std::vec::IntoIter<Layer>;

    /// Returns the layers, the weakest first.
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Tells whether a table says something under a key.
fn says(table: &Table, key: &[&str]) -> bool {
    match key {
        [] => true,
        [last] => table.contains_key(*last),
        [first, rest @ ..] => match table.get(*first) {
            Some(Value::Table(table)) => says(table, rest),
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

/// What is no table, with the keys that lead to it.
struct Leaf {
    key: String,
    value: Value,
    /// Whether it may be a key, which is never displayed.
    is_key: bool,
}

/// Collects what is no table.
fn leaves(above: &str, table: &Table, found: &mut Vec<Leaf>) {
    for (name, value) in table {
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        let name = if !name.is_empty() && name.chars().all(is_bare) {
            name.clone()
        } else {
            format!("{name:?}")
        };
        let key = match above {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        match value {
            Value::Table(table) => leaves(&key, table, found),
            value => found.push(Leaf {
                is_key: name == "api_key" || holds_keys(above),
                key,
                value: value.clone(),
            }),
        }
    }
}

/// Tells whether the values of a table may be keys: the variables and headers of MCP servers.
fn holds_keys(table: &str) -> bool {
    let last = table.rsplit('.').next();
    table.starts_with("mcp_servers.") && matches!(last, Some("env" | "headers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> Layers {
        let mut layers = Layers::default();
        layers.push(Layer::of(Origin::Default).with(&["limits", "threads"], 7));
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
        let variable = Layer::of(Origin::Variable("WINDLASS_MODEL".to_owned()));
        layers.push(variable.with(&["model"], "sim"));
        layers
    }

    #[test]
    fn the_last_word_wins_key_by_key() {
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
    fn each_value_says_where_it_comes_from_and_keys_are_masked() {
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
    fn what_has_changed_is_named_also_where_it_is_a_key() {
        let of = |text: &str| {
            let mut layers = Layers::default();
            layers.push(Layer::parse(text, Path::new("/etc/windlass.toml")).unwrap());
            layers
        };
        let before =
            of("model = 'a/b'\n[limits]\nthreads = 1\n[providers.openai]\napi_key = 'sk-1'");
        let after =
            of("models = ['c/d']\n[limits]\nthreads = 1\n[providers.openai]\napi_key = 'sk-2'");
        let changed = after.changed_since(&before);
        assert_eq!(changed, ["model", "models", "providers.openai.api_key"]);
        assert_eq!(after.changed_since(&after), [""; 0]);
    }

    #[test]
    fn one_layer_says_what_its_text_says() {
        let text = "model = 'x'\nca_file = 'r'\n[backends.\"a b\"]\nkind = 'acp'\n";
        let path = Path::new("/etc/windlass.toml");
        let mut layers = Layers::default();
        layers.push(Layer::parse(text, path).unwrap());
        let alone = Config::parse(text, Path::new("/etc")).unwrap();
        assert_eq!(layers.config().unwrap(), alone);
        assert_eq!(layers.values()[0].key, r#"backends."a b".kind"#);
    }
}
