//! `windlass token`: tokens with limited scopes for other clients.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use windlass_server::{TokenFile, TokenRecord, TokenScope};

use crate::cli::note;
use crate::data;
use crate::inert_json::{json_line, write_value};

/// Makes, lists and revokes tokens of a data directory. A daemon that runs on it knows at once.
#[derive(Args)]
pub(crate) struct Token {
    /// The data directory of the daemon [default: the user's own].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Makes a token and prints its secret, which is shown this once and kept nowhere.
    Create {
        /// What it may be used for: admin, client or `agent:ID`.
        #[arg(long, default_value = "client")]
        scope: TokenScope,
        /// What people call it.
        #[arg(long)]
        name: Option<String>,
    },
    /// Lists the tokens, without their secrets.
    List,
    /// Revokes a token: the next request with it is refused.
    Revoke {
        /// The token's id, as `list` shows it.
        id: String,
    },
}

impl Token {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = data::directory(self.data)?;
        let book = TokenFile::new(&directory);
        let mut stdout = std::io::stdout().lock();
        match self.subcommand {
            Subcommand::Create { scope, name } => {
                data::make(&directory)?;
                let (record, secret) = book.create(scope, name)?;
                if self.json {
                    let mut shown = shown(&record);
                    shown["token"] = secret.into();
                    writeln!(stdout, "{}", json_line(&shown)?)?;
                } else {
                    note(&format!("{} may act as {}", record.id, record.scope));
                    writeln!(stdout, "{secret}")?;
                }
            }
            Subcommand::List => {
                let records = book.list()?;
                if records.is_empty() {
                    note("there are no tokens yet; `windlass token create` makes one");
                }
                for record in records {
                    let made = record.created_at.format("%Y-%m-%d %H:%M");
                    let name = record.name.as_deref().unwrap_or("-");
                    let line = format!("{}  {}  {made}  {name}", record.id, record.scope);
                    write_value(&mut stdout, self.json, &shown(&record), &line)?;
                }
            }
            Subcommand::Revoke { id } => {
                data::check(&directory)?;
                if !book.revoke(&id)? {
                    bail!(
                        "there is no token {id}; `windlass token list` shows those that there are"
                    );
                }
                note(&format!("{id} is revoked"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(record: &TokenRecord) -> serde_json::Value {
    let TokenRecord {
        id,
        name,
        scope,
        created_at,
        ..
    } = record;
    json!({"id": id, "name": name, "scope": scope, "created_at": created_at})
}
