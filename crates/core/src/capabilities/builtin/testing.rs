//! Fakes for the tests of built-in capabilities.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::capabilities::Capability;
use crate::error::{AgentLoopError, Result};
use crate::session_file::{FileInfo, FileStat, GrepMatch, SessionFile};
use crate::session_path::normalize;
use crate::tools::ToolExecutionResult;
use crate::traits::{KeyInfo, SecretInfo, SessionFileSystem, SessionStorageStore, ToolContext};
use crate::typed_id::SessionId;

pub(super) const THEN: DateTime<Utc> = DateTime::UNIX_EPOCH;

/// FakeFiles by path; `None` is a directory.
#[derive(Default)]
pub(super) struct FakeFiles(Mutex<BTreeMap<String, Option<(String, String)>>>);

impl FakeFiles {
    pub(super) fn new(texts: &[(&str, &str)]) -> Arc<Self> {
        let files = Self::default();
        for (path, text) in texts {
            files.put(path, text, "text");
        }
        Arc::new(files)
    }
    pub(super) fn put(&self, path: &str, content: &str, encoding: &str) {
        let mut files = self.0.lock().unwrap();
        let mut parent = FileInfo::parent_path(path);
        while let Some(path) = parent {
            parent = FileInfo::parent_path(&path);
            files.entry(path).or_insert(None);
        }
        files.insert(path.to_owned(), Some((content.into(), encoding.into())));
    }
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(self.0.lock().unwrap().get(path)?.clone()?.0)
    }
}

fn file(path: &str, entry: &Option<(String, String)>) -> SessionFile {
    SessionFile {
        id: Uuid::nil(),
        session_id: Uuid::nil(),
        path: path.to_owned(),
        name: FileInfo::name_from_path(path),
        content: entry.as_ref().map(|entry| entry.0.clone()),
        encoding: entry
            .as_ref()
            .map_or_else(|| "text".into(), |entry| entry.1.clone()),
        is_directory: entry.is_none(),
        is_readonly: false,
        size_bytes: entry.as_ref().map_or(0, |entry| entry.0.len() as i64),
        created_at: THEN,
        updated_at: THEN,
    }
}

fn info(file: SessionFile) -> FileInfo {
    FileInfo {
        id: file.id,
        session_id: file.session_id,
        path: file.path,
        name: file.name,
        is_directory: file.is_directory,
        is_readonly: file.is_readonly,
        size_bytes: file.size_bytes,
        created_at: file.created_at,
        updated_at: file.updated_at,
    }
}

#[async_trait]
impl SessionFileSystem for FakeFiles {
    async fn read_file(&self, _: SessionId, path: &str) -> Result<Option<SessionFile>> {
        let path = normalize(path)?;
        let files = self.0.lock().unwrap();
        Ok(files.get(&path).map(|entry| file(&path, entry)))
    }
    async fn write_file(
        &self,
        session_id: SessionId,
        path: &str,
        content: &str,
        encoding: &str,
    ) -> Result<SessionFile> {
        if path.contains("readonly") {
            return Err(AgentLoopError::tool(format!("file is read-only: {path}")));
        }
        if path.contains("broken") {
            return Err(AgentLoopError::store("disk 7 in rack 3 is broken"));
        }
        self.put(&normalize(path)?, content, encoding);
        let written = self.read_file(session_id, path).await?;
        Ok(written.expect("it was just written"))
    }
    async fn delete_file(&self, _: SessionId, path: &str, recursive: bool) -> Result<bool> {
        let (path, mut files) = (normalize(path)?, self.0.lock().unwrap());
        let below = format!("{path}/");
        if !recursive && files.keys().any(|key| key.starts_with(&below)) {
            return Ok(false);
        }
        files.retain(|key, _| !key.starts_with(&below));
        Ok(files.remove(&path).is_some())
    }
    async fn list_directory(&self, _: SessionId, path: &str) -> Result<Vec<FileInfo>> {
        let path = normalize(path)?;
        let files = self.0.lock().unwrap();
        let children = files
            .iter()
            .filter(|(key, _)| FileInfo::parent_path(key).as_deref() == Some(&path));
        Ok(children
            .map(|(key, entry)| info(file(key, entry)))
            .collect())
    }
    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>> {
        let file = self.read_file(session_id, path).await?;
        Ok(file.map(|file| FileStat {
            path: file.path,
            name: file.name,
            is_directory: file.is_directory,
            is_readonly: file.is_readonly,
            size_bytes: file.size_bytes,
            created_at: file.created_at,
            updated_at: file.updated_at,
        }))
    }
    async fn grep_files(
        &self,
        _: SessionId,
        pattern: &str,
        path_pattern: Option<&str>,
    ) -> Result<Vec<GrepMatch>> {
        let files = self.0.lock().unwrap();
        let mut hits = Vec::new();
        for (path, entry) in files.iter() {
            let text = entry.as_ref().map_or("", |entry| entry.0.as_str());
            let wanted = path_pattern.is_none_or(|part| path.contains(part));
            let lines = text
                .lines()
                .enumerate()
                .filter(|(_, line)| line.contains(pattern));
            hits.extend(lines.filter(|_| wanted).map(|(index, line)| GrepMatch {
                path: path.clone(),
                line_number: index + 1,
                line: line.to_owned(),
            }));
        }
        Ok(hits)
    }
    async fn create_directory(&self, _: SessionId, path: &str) -> Result<FileInfo> {
        let path = normalize(path)?;
        self.0.lock().unwrap().insert(path.clone(), None);
        Ok(info(file(&path, &None)))
    }
}

/// Calls a tool of a capability as the runtime would.
pub(super) async fn call(
    capability: &dyn Capability,
    tool: &str,
    args: Value,
    ctx: &ToolContext,
) -> std::result::Result<Value, String> {
    let tools = capability.tools();
    let tool = tools.iter().find(|known| known.name() == tool);
    let tool = tool.expect("the capability has the tool");
    match tool.execute_with_context(args, ctx).await {
        ToolExecutionResult::Success(value) => Ok(value),
        ToolExecutionResult::ToolError(text) => Err(text),
        other => Err(format!("{other:?}")),
    }
}

/// Calls every tool with invalid arguments: each must return an error and none may panic.
pub(super) async fn odd_arguments(capability: &dyn Capability) {
    let context = ToolContext::with_file_store(SessionId::new(), FakeFiles::new(&[]));
    for tool in capability.tools() {
        for args in [
            Value::Null,
            serde_json::json!([]),
            serde_json::json!("text"),
            serde_json::json!({"path": 7, "operation": "burn", "todos": {}, "limit": -1, "name": []}),
            serde_json::json!({"path": "../../etc", "offset": u64::MAX, "limit": u64::MAX, "search": "", "name": "../x"}),
            serde_json::json!({"path": "a\0b", "content": "", "pattern": "(", "title": "", "name": "", "utc_offset": "é+0"}),
        ] {
            let _ = tool.execute_with_context(args.clone(), &context).await;
            let _ = tool.execute(args).await;
        }
        assert_eq!(
            tool.parameters_schema()["type"],
            "object",
            "{}",
            tool.name()
        );
    }
}

/// Values and secrets by name, without regard to sessions.
#[derive(Default)]
pub(super) struct FakeStorage {
    values: Mutex<BTreeMap<String, String>>,
    secrets: Mutex<BTreeMap<String, String>>,
}

#[async_trait]
impl SessionStorageStore for FakeStorage {
    async fn set_value(&self, _: SessionId, key: &str, value: &str) -> Result<()> {
        self.values.lock().unwrap().insert(key.into(), value.into());
        Ok(())
    }
    async fn get_value(&self, _: SessionId, key: &str) -> Result<Option<String>> {
        Ok(self.values.lock().unwrap().get(key).cloned())
    }
    async fn delete_value(&self, _: SessionId, key: &str) -> Result<bool> {
        Ok(self.values.lock().unwrap().remove(key).is_some())
    }
    async fn list_keys(&self, _: SessionId) -> Result<Vec<KeyInfo>> {
        let key = |key: &String| KeyInfo {
            key: key.clone(),
            created_at: THEN,
            updated_at: THEN,
        };
        Ok(self.values.lock().unwrap().keys().map(key).collect())
    }
    async fn set_secret(&self, _: SessionId, name: &str, value: &str) -> Result<()> {
        let mut secrets = self.secrets.lock().unwrap();
        secrets.insert(name.into(), value.into());
        Ok(())
    }
    async fn get_secret(&self, _: SessionId, name: &str) -> Result<Option<String>> {
        Ok(self.secrets.lock().unwrap().get(name).cloned())
    }
    async fn delete_secret(&self, _: SessionId, name: &str) -> Result<bool> {
        Ok(self.secrets.lock().unwrap().remove(name).is_some())
    }
    async fn list_secrets(&self, _: SessionId) -> Result<Vec<SecretInfo>> {
        let name = |name: &String| SecretInfo {
            name: name.clone(),
            created_at: THEN,
            updated_at: THEN,
        };
        Ok(self.secrets.lock().unwrap().keys().map(name).collect())
    }
}
