//! Keys and secrets that the agent stores in its session.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::{Failure, SessionTool, boxed, object, offered, writes};
use crate::capabilities::{Capability, RiskLevel};
use crate::error::AgentLoopError;
use crate::tools::{SideEffectClass, Tool, ToolHints};
use crate::traits::{SECRET_MASK, SessionStorageStore, ToolContext};

const MAX_NAME_BYTES: usize = 256;

/// Keeps values and secrets by name. A secret's value is shown only when it is asked for by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionStorageCapability;

impl Capability for SessionStorageCapability {
    fn id(&self) -> &str {
        "session_storage"
    }
    fn name(&self) -> &str {
        "Storage"
    }
    fn description(&self) -> &str {
        "Keeps values and secrets in the session."
    }
    fn category(&self) -> Option<&str> {
        Some("Session")
    }
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Medium
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(KvStore), boxed(SecretStore)]
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Get,
    Set,
    Delete,
    List,
}

/// No `Debug`: the value may be a secret.
#[derive(Deserialize)]
struct Args {
    operation: Operation,
    #[serde(alias = "name")]
    key: Option<String>,
    value: Option<String>,
}

impl Args {
    fn key(&self, called: &str) -> Result<&str, Failure> {
        match self.key.as_deref() {
            None | Some("") => Err(Failure::told(format!("this operation needs `{called}`"))),
            Some(key) if key.len() > MAX_NAME_BYTES => Err(Failure::told(format!(
                "`{called}` may have {MAX_NAME_BYTES} bytes at most"
            ))),
            Some(key) => Ok(key),
        }
    }
    fn value(&self) -> Result<&str, Failure> {
        self.value
            .as_deref()
            .ok_or_else(|| Failure::told("`set` needs `value`"))
    }
}

fn schema(called: &str) -> Value {
    object(
        json!({
            "operation": { "type": "string", "enum": ["get", "set", "delete", "list"] },
            called: { "type": "string", "description": "The name; not for `list`" },
            "value": { "type": "string", "description": "The value, for `set`" }
        }),
        &["operation"],
    )
}

fn storage(ctx: &ToolContext) -> Result<&Arc<dyn SessionStorageStore>, Failure> {
    offered(&ctx.storage_store, "session storage")
}

struct KvStore;

#[async_trait]
impl SessionTool for KvStore {
    type Args = Args;
    const NAME: &'static str = "kv_store";
    const DESCRIPTION: &'static str =
        "Keep small values by key in this session: get, set, delete, list.";

    fn schema(&self) -> Value {
        schema("key")
    }
    fn hints(&self) -> ToolHints {
        writes("session_storage", SideEffectClass::Idempotent)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, Failure> {
        let (store, id) = (storage(ctx)?, ctx.session_id);
        Ok(match args.operation {
            Operation::List => json!({ "keys": store.list_keys(id).await? }),
            Operation::Get => {
                let key = args.key("key")?;
                let value = store.get_value(id, key).await?;
                json!({ "key": key, "found": value.is_some(), "value": value })
            }
            Operation::Set => {
                let (key, value) = (args.key("key")?, args.value()?);
                store.set_value(id, key, value).await?;
                json!({ "key": key, "stored": true })
            }
            Operation::Delete => {
                let key = args.key("key")?;
                json!({ "key": key, "deleted": store.delete_value(id, key).await? })
            }
        })
    }
}

/// Turns a store's configuration error (for example, no secret key) into a tool error. The model can continue without secrets and report the text.
fn unsealed(error: AgentLoopError) -> Failure {
    match error {
        AgentLoopError::Configuration(text) => Failure::told(text),
        other => other.into(),
    }
}

/// Returns whether a value is the mask of a secret. A model that reads its own recorded call may repeat it.
fn is_mask(value: &str) -> bool {
    value.starts_with(SECRET_MASK) && value.ends_with(']')
}

struct SecretStore;

#[async_trait]
impl SessionTool for SecretStore {
    type Args = Args;
    const NAME: &'static str = "secret_store";
    const DESCRIPTION: &'static str =
        "Keep secrets by name in this session: get, set, delete, list. Only `get` shows a value.";

    fn schema(&self) -> Value {
        schema("name")
    }
    fn hints(&self) -> ToolHints {
        writes("session_storage", SideEffectClass::Idempotent)
            .with_requires_secrets(true)
            .with_secret_arguments(["value".to_owned()])
            .with_persist_output(false)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, Failure> {
        let (store, id) = (storage(ctx)?, ctx.session_id);
        Ok(match args.operation {
            Operation::List => json!({ "secrets": store.list_secrets(id).await? }),
            Operation::Get => {
                let name = args.key("name")?;
                let value = store.get_secret(id, name).await.map_err(unsealed)?;
                json!({ "name": name, "found": value.is_some(), "value": value })
            }
            Operation::Set => {
                let (name, value) = (args.key("name")?, args.value()?);
                if is_mask(value) {
                    return Err(Failure::told(format!(
                        "`{value}` is what is shown in place of a secret; give the secret itself"
                    )));
                }
                store.set_secret(id, name, value).await.map_err(unsealed)?;
                json!({ "name": name, "stored": true })
            }
            Operation::Delete => {
                let name = args.key("name")?;
                json!({ "name": name, "deleted": store.delete_secret(id, name).await? })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Storage, call, odd_arguments};
    use super::*;
    use crate::typed_id::SessionId;

    #[tokio::test]
    async fn values_are_set_read_listed_and_deleted() {
        for (tool, called, list) in [
            ("kv_store", "key", "keys"),
            ("secret_store", "name", "secrets"),
        ] {
            let ctx =
                ToolContext::with_storage_store(SessionId::new(), Arc::new(Storage::default()));
            let run = async |args| {
                call(&SessionStorageCapability, tool, args, &ctx)
                    .await
                    .unwrap()
            };
            let set = run(json!({"operation": "set", called: "a", "value": "hunter2"})).await;
            assert_eq!(set, json!({called: "a", "stored": true}));
            let got = run(json!({"operation": "get", called: "a"})).await;
            assert_eq!(got, json!({called: "a", "found": true, "value": "hunter2"}));
            let listed = run(json!({"operation": "list"})).await;
            assert_eq!(listed[list][0][called], "a");
            assert!(
                !listed.to_string().contains("hunter2"),
                "a list shows no value"
            );
            let gone = run(json!({"operation": "delete", called: "a"})).await;
            assert_eq!(gone["deleted"], true);
            let got = run(json!({"operation": "get", called: "a"})).await;
            assert_eq!(got, json!({called: "a", "found": false, "value": null}));
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_named_and_a_value_is_never_repeated() {
        let ctx = ToolContext::with_storage_store(SessionId::new(), Arc::new(Storage::default()));
        for (args, named) in [
            (json!({"operation": "get"}), "`name`"),
            (json!({"operation": "set", "name": "a"}), "`value`"),
            (json!({"operation": "burn", "value": "hunter2"}), "burn"),
            (
                json!({"operation": "set", "name": "", "value": "hunter2"}),
                "`name`",
            ),
            (
                json!({"operation": "set", "name": "a", "value": "[secret:value]"}),
                "the secret itself",
            ),
        ] {
            let told = call(&SessionStorageCapability, "secret_store", args, &ctx).await;
            let told = told.unwrap_err();
            assert!(told.contains(named) && !told.contains("hunter2"), "{told}");
        }
        odd_arguments(&SessionStorageCapability).await;
    }
}
