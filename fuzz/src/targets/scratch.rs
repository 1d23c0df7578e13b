//! A small tree of files, and the tools that search it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use windlass_core::capabilities::Capability;
use windlass_core::tools::{Tool, ToolExecutionResult};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;
use windlass_tools::{Environment, Environments, FilesCapability, Policy};

/// Each is a text of one line.
pub(super) const FILES: [&str; 9] = [
    "a.rs",
    "notes.md",
    "src/lib.rs",
    "src/deep/a",
    "src/deep/ä木.rs",
    "src/deep/er/[x]{y}.txt",
    "target/out.rs",
    "with space /-!#",
    "\\back*slash",
];

/// Directories that may hold ignore files.
pub(super) const DIRECTORIES: [&str; 4] = ["", "src", "src/deep", "target"];

pub(super) const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

pub(super) struct Scratch {
    directory: TempDir,
    tools: Vec<Box<dyn Tool>>,
    runtime: Runtime,
}

impl Scratch {
    pub(super) fn new() -> Self {
        match Self::open() {
            Ok(scratch) => scratch,
            Err(error) => panic!("there is no place to work in: {error}"),
        }
    }

    fn open() -> Result<Self, Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        for name in FILES.iter().chain(&[".git/config"]) {
            let path = directory.path().join(name);
            path.parent().map(fs::create_dir_all).transpose()?;
            fs::write(
                path,
                "needle in aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ä木\n",
            )?;
        }
        let local = Environment::new("local", directory.path(), Policy::default())?;
        let files = FilesCapability::new(Environments::with_default(local));
        Ok(Self {
            directory,
            tools: files.tools(),
            runtime: Builder::new_current_thread().build()?,
        })
    }

    pub(super) fn path(&self, directory: &str, name: &str) -> PathBuf {
        self.directory.path().join(directory).join(name)
    }

    /// Calls a tool; an error is the text for the model. Any other result, such as a panic, is a finding.
    pub(super) fn call(&self, name: &str, arguments: &Value) -> Result<Value, String> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            panic!("no tool {name}")
        };
        let context = ToolContext::new(SessionId::from_uuid(uuid::Uuid::nil()));
        let called = tool.execute_with_context(arguments.clone(), &context);
        match self.runtime.block_on(called) {
            ToolExecutionResult::Success(value) => Ok(value),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{name} {arguments}: {other:?}"),
        }
    }

    /// Returns the files that `glob` finds, in their order.
    pub(super) fn glob(&self, pattern: &str, include_ignored: bool) -> Result<Vec<String>, String> {
        let arguments = json!({ "pattern": pattern, "include_ignored": include_ignored });
        let found = self.call("glob", &arguments)?;
        Ok(texts(&found["files"], |file| file))
    }

    /// Returns the files in which `grep` finds the line that all have.
    pub(super) fn grep(&self, glob: &str, include_ignored: bool) -> Result<Vec<String>, String> {
        let arguments =
            json!({ "pattern": "needle", "glob": glob, "include_ignored": include_ignored });
        let found = self.call("grep", &arguments)?;
        Ok(texts(&found["matches"], |found| &found["path"]))
    }
}

fn texts(list: &Value, field: impl Fn(&Value) -> &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| field(item).as_str().map(str::to_owned))
        .collect()
}

/// Checks that files are among those of the tree, or ignore files in it, each once.
pub(super) fn check_files(files: &[String]) {
    let mut seen = BTreeSet::new();
    for file in files {
        let name = file.rsplit('/').next().unwrap_or_default();
        let is_known = FILES.contains(&file.as_str()) || IGNORE_FILES.contains(&name);
        assert!(is_known, "{file} is not of the tree");
        assert!(seen.insert(file), "{file} is found twice");
    }
}
