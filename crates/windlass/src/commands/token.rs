//! `windlass token`: tokens with limited scopes for other clients.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use windlass_server::{TokenFile, TokenRecord, TokenScope};

use crate::cli::note;
use crate::commands::data_options::DataOptions;
use crate::data;
use crate::inert_json::{write_json, write_value};

/// Creates, lists and revokes tokens. Changes apply to a running daemon immediately.
#[derive(Args)]
pub(crate) struct Token {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Creates a token and prints its secret, which is not stored and cannot be shown again.
    Create {
        /// Permissions: admin, client or `agent:ID`.
        #[arg(long, default_value = "client")]
        scope: TokenScope,
        /// Name that `list` displays.
        #[arg(long)]
        name: Option<String>,
    },
    /// Lists tokens without their secrets.
    List,
    /// Revokes a token: further requests with it are rejected.
    Revoke {
        /// ID from `list`.
        id: String,
    },
}

impl Token {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = self.options.directory()?;
        let tokens = TokenFile::new(&directory);
        let mut stdout = std::io::stdout().lock();
        match self.subcommand {
            Subcommand::Create { scope, name } => {
                data::create(&directory)?;
                let (record, secret) = tokens.create(scope, name)?;
                if self.options.json {
                    let mut json = as_json(&record);
                    json["token"] = secret.into();
                    write_json(&mut stdout, &json)?;
                } else {
                    note(format!(
                        "created {} with the scope {}",
                        record.id, record.scope
                    ));
                    writeln!(stdout, "{secret}")?;
                }
            }
            Subcommand::List => {
                let records = tokens.list()?;
                if records.is_empty() {
                    note("there are no tokens yet; `windlass token create` creates one");
                }
                for record in records {
                    let created = record.created_at.format("%Y-%m-%d %H:%M");
                    let name = record.name.as_deref().unwrap_or("-");
                    let line = format!("{}  {}  {created}  {name}", record.id, record.scope);
                    write_value(&mut stdout, self.options.json, &as_json(&record), &line)?;
                }
            }
            Subcommand::Revoke { id } => {
                data::check(&directory)?;
                if !tokens.revoke(&id)? {
                    bail!("there is no token {id}; `windlass token list` shows all tokens");
                }
                note(format!("{id} is revoked"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(record: &TokenRecord) -> serde_json::Value {
    json!({
        "id": record.id, "name": record.name, "scope": record.scope, "created_at": record.created_at,
    })
}
