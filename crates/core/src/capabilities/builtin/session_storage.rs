//! Keys and secrets that the agent stores in its session.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::{SessionTool, ToolFailure, boxed, fail, object, offered, writes};
use crate::capabilities::{Capability, RiskLevel};
use crate::error::AgentLoopError;
use crate::tools::{SideEffectClass, Tool, ToolHints};
use crate::traits::{SECRET_MASK, SessionStorageStore, ToolContext};

const MAX_NAME_BYTES: usize = 256;

/// Stores values and secrets by name. Only `get` shows the value of a secret.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionStorageCapability;

impl Capability for SessionStorageCapability {
    constants!(
        "session_storage",
        "Storage",
        "Stores values and secrets in the session.",
        "Session"
    );
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Medium
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(KvStore), boxed(SecretStore)]
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StorageOperation {
    Get,
    Set,
    Delete,
    List,
}

/// No `Debug`: the value may be a secret.
#[derive(Deserialize)]
struct Args {
    operation: StorageOperation,
    #[serde(alias = "name")]
    key: Option<String>,
    value: Option<String>,
}

impl Args {
    fn key(&self, called: &str) -> Result<&str, ToolFailure> {
        match self.key.as_deref() {
            None | Some("") => fail(format!("this operation needs `{called}`")),
            Some(key) if key.len() > MAX_NAME_BYTES => fail(format!(
                "`{called}` may have {MAX_NAME_BYTES} bytes at most"
            )),
            Some(key) => Ok(key),
        }
    }
    fn value(&self) -> Result<&str, ToolFailure> {
        self.value
            .as_deref()
            .map_or_else(|| fail("`set` needs `value`"), Ok)
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

fn storage(ctx: &ToolContext) -> Result<&Arc<dyn SessionStorageStore>, ToolFailure> {
    offered(&ctx.storage_store, "session storage")
}

struct KvStore;

#[async_trait]
impl SessionTool for KvStore {
    type Args = Args;
    const NAME: &'static str = "kv_store";
    const DESCRIPTION: &'static str =
        "Store small values by key in this session: get, set, delete, list.";

    fn schema(&self) -> Value {
        schema("key")
    }
    fn hints(&self) -> ToolHints {
        writes("session_storage", SideEffectClass::Idempotent)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let (store, id) = (storage(ctx)?, ctx.session_id);
        Ok(match args.operation {
            StorageOperation::List => json!({ "keys": store.list_keys(id).await? }),
            StorageOperation::Get => {
                let key = args.key("key")?;
                let value = store.get_value(id, key).await?;
                json!({ "key": key, "found": value.is_some(), "value": value })
            }
            StorageOperation::Set => {
                let (key, value) = (args.key("key")?, args.value()?);
                store.set_value(id, key, value).await?;
                json!({ "key": key, "stored": true })
            }
            StorageOperation::Delete => {
                let key = args.key("key")?;
                json!({ "key": key, "deleted": store.delete_value(id, key).await? })
            }
        })
    }
}

/// Turns a store's configuration error (for example, no secret key) into a tool error. The model can continue without secrets and report the text.
fn tool_failure(error: AgentLoopError) -> ToolFailure {
    match error {
        AgentLoopError::Configuration(text) => ToolFailure::Error(text),
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
        "Store secrets by name in this session: get, set, delete, list. Only `get` shows a value.";

    fn schema(&self) -> Value {
        schema("name")
    }
    fn hints(&self) -> ToolHints {
        writes("session_storage", SideEffectClass::Idempotent)
            .with_requires_secrets(true)
            .with_secret_arguments(["value".to_owned()])
            .with_persist_output(false)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let (store, id) = (storage(ctx)?, ctx.session_id);
        Ok(match args.operation {
            StorageOperation::List => json!({ "secrets": store.list_secrets(id).await? }),
            StorageOperation::Get => {
                let name = args.key("name")?;
                let value = store.get_secret(id, name).await.map_err(tool_failure)?;
                json!({ "name": name, "found": value.is_some(), "value": value })
            }
            StorageOperation::Set => {
                let (name, value) = (args.key("name")?, args.value()?);
                if is_mask(value) {
                    return fail(format!(
                        "`{value}` is the mask of a secret; send the secret itself"
                    ));
                }
                store
                    .set_secret(id, name, value)
                    .await
                    .map_err(tool_failure)?;
                json!({ "name": name, "stored": true })
            }
            StorageOperation::Delete => {
                let name = args.key("name")?;
                json!({ "name": name, "deleted": store.delete_secret(id, name).await? })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStorage, call, odd_arguments};
    use super::*;
    use crate::typed_id::SessionId;

    #[tokio::test]
    async fn values_are_set_read_listed_and_deleted() {
        for (tool, called, list) in [
            ("kv_store", "key", "keys"),
            ("secret_store", "name", "secrets"),
        ] {
            let ctx =
                ToolContext::with_storage_store(SessionId::new(), Arc::new(FakeStorage::default()));
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
    async fn missing_argument_is_named_and_a_value_is_never_repeated() {
        let ctx =
            ToolContext::with_storage_store(SessionId::new(), Arc::new(FakeStorage::default()));
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
            let error = call(&SessionStorageCapability, "secret_store", args, &ctx).await;
            let error = error.unwrap_err();
            assert!(
                error.contains(named) && !error.contains("hunter2"),
                "{error}"
            );
        }
        odd_arguments(&SessionStorageCapability).await;
    }
}
