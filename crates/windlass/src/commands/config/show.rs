//! `windlass config show`: every value with its origin.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass_config::{SetValue, schema, without_login};
use windlass_core::bounds::one_line;

use super::{defaults, warn_if_rejected};
use crate::cli::{or_current, set_variable};
use crate::config::flags::FlagLayers;
use crate::config::{self, Layers, Origin};
use crate::inert_json::write_json;
use crate::model;

/// Shows each effective value. The flags of `windlass serve` can be added.
#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    flags: FlagLayers,
}

impl Show {
    pub(super) fn run(
        self,
        named: Option<&Path>,
        data: &Path,
        is_json: bool,
        out: &mut impl Write,
    ) -> Result<()> {
        let layers = self.layers(named, data)?;
        let config = layers.config()?;
        config::warn_of_unknown_tools(&config);
        warn_if_rejected(&config, data, &or_current(None)?);
        let values = layers.values();
        if is_json {
            for set in &values {
                let (from, name) = from_of(set.origin);
                let value = shown(set)?;
                let line = json!({ "key": set.key, "value": value, "from": from, "name": name });
                write_json(out, &line)?;
            }
            return Ok(());
        }
        let rows = rows(&values)?;
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let (keys, texts) = (width(0).unwrap_or(0), width(1).unwrap_or(0).min(40));
        for [key, value, from] in &rows {
            let line = format!("{key:<keys$}  {value:<texts$}  {from}");
            writeln!(out, "{}", one_line(&line))?;
        }
        Ok(())
    }

    /// Returns all configuration layers in order of increasing precedence.
    fn layers(self, named: Option<&Path>, data: &Path) -> Result<Layers> {
        let mut layers = config::layers(named, data)?;
        layers.push_defaults(defaults::layer());
        for layer in model::layers_of(set_variable)
            .into_iter()
            .chain(self.flags.0)
        {
            layers.push(layer);
        }
        Ok(layers)
    }
}

/// Returns key, value and origin of all set keys, then the unset keys.
fn rows(values: &[SetValue<'_>]) -> Result<Vec<[String; 3]>> {
    let mut rows = vec![["KEY", "VALUE", "FROM"].map(str::to_owned)];
    for set in values {
        rows.push([
            set.key.clone(),
            shown(set)?.to_string(),
            set.origin.to_string(),
        ]);
    }
    let set: BTreeSet<&str> = values.iter().map(|set| set.key.as_str()).collect();
    let is_unset = |key: &String| !set.contains(key.as_str()) && !key.contains('*');
    for key in schema::keys().into_iter().filter(is_unset) {
        rows.push([key, "-".to_owned(), "not set".to_owned()]);
    }
    Ok(rows)
}

/// Returns a value for display; passwords in URLs are removed.
fn shown(set: &SetValue<'_>) -> Result<Value> {
    let value = serde_json::to_value(&set.value)?;
    let is_server = set.key.starts_with("mcp_servers.") && set.key.ends_with(".url");
    let is_address = set.key == "proxy" || set.key.ends_with(".base_url") || is_server;
    Ok(match value {
        Value::String(url) if is_address => without_login(&url).into(),
        value => value,
    })
}

fn from_of(origin: &Origin) -> (&'static str, Option<String>) {
    match origin {
        Origin::Default => ("default", None),
        Origin::File(path) => ("file", Some(path.display().to_string())),
        Origin::Variable(name) => ("variable", Some(name.clone())),
        Origin::Flag(name) => ("flag", Some(name.clone())),
    }
}
