//! Outputs that are too long to show.

use std::fs;

use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;
use windlass_tools::{
    Confinement, FilesCapability, OutputLimits, Outputs, Policy, ShellCapability, ShellSettings,
};

use crate::support::{TestWorkspace, ways};

/// A conversation in a workspace with stored outputs.
pub(crate) struct SessionTools {
    pub(crate) workspace: TestWorkspace,
    pub(crate) session_id: SessionId,
    shell: ShellCapability,
}

impl SessionTools {
    pub(crate) fn new(limits: OutputLimits) -> Self {
        Self::confined(Confinement::Unconfined, limits, |_| {})
    }

    pub(crate) fn confined(
        way: Confinement,
        limits: OutputLimits,
        set: impl FnOnce(&mut ShellSettings),
    ) -> Self {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        set(&mut workspace.settings);
        let store = Outputs::open(workspace.outside().join("store"), limits).unwrap();
        workspace.environments.hide(workspace.outside());
        workspace.environments.enable_outputs(store);
        Self {
            shell: ShellCapability::new(workspace.environments.clone(), workspace.settings.clone()),
            workspace,
            session_id: SessionId::new(),
        }
    }

    /// Returns the same conversation after a restart of the host.
    pub(crate) fn restarted(self) -> Self {
        let store = self.workspace.outside().join("store");
        let store = Outputs::open(store, OutputLimits::default()).unwrap();
        self.workspace.environments.enable_outputs(store);
        let environments = self.workspace.environments.clone();
        Self {
            shell: ShellCapability::new(environments, self.workspace.settings.clone()),
            ..self
        }
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        self.call_of(self.session_id, name, arguments).await
    }

    pub(crate) async fn call_of(
        &self,
        session_id: SessionId,
        name: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        let never = json!({ "approval": "never" });
        let mut tools = self.shell.tools_with_config(&never);
        tools.extend(
            FilesCapability::new(self.workspace.environments.clone()).tools_with_config(&never),
        );
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        let context = ToolContext::new(session_id);
        match tool.execute_with_context(arguments, &context).await {
            ToolExecutionResult::Success(value) => Ok(value),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn shell(&self, command: &str) -> Value {
        let arguments = json!({ "command": command });
        self.call("shell", arguments).await.unwrap()
    }

    pub(crate) async fn remove(&self, session_id: SessionId) {
        self.shell.session_removed(session_id).await;
        let files = FilesCapability::new(self.workspace.environments.clone());
        files.session_removed(session_id).await;
    }

    /// Returns the size of the store in bytes.
    fn stored(&self) -> u64 {
        let sessions = fs::read_dir(self.workspace.outside().join("store")).unwrap();
        let files = sessions.flat_map(|session| fs::read_dir(session.unwrap().path()).unwrap());
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }
}

/// Returns the path in a result.
pub(crate) fn path_in(text: &str) -> String {
    let (_, rest) = text
        .split_once("`output:")
        .unwrap_or_else(|| panic!("{text}"));
    let (id, _) = rest.split_once('`').unwrap();
    format!("output:{id}")
}

const LONG: &str = "for i in $(seq 1 20000); do echo line $i; done";

#[tokio::test]
async fn long_output_is_stored_and_can_be_read_and_searched() {
    for way in ways() {
        let tools = SessionTools::confined(way, OutputLimits::default(), |_| {});
        let ran = tools.shell(LONG).await;
        let output = ran["output"].as_str().unwrap();
        assert!(
            output.starts_with("line 1\n") && output.ends_with("line 20000\n"),
            "{way:?}"
        );
        assert!(output.contains("bytes left out"), "{way:?}");
        let path = path_in(ran["remark"].as_str().unwrap());
        let lines = json!({ "path": path, "start_line": 9_999, "lines": 2 });
        let read = tools.call("read", lines.clone()).await.unwrap();
        assert_eq!(read["content"], "line 9999\nline 10000\n", "{way:?}");
        assert_eq!(
            (&read["line_count"], &read["path"]),
            (&json!(20_000), &json!(path))
        );
        let grep = json!({ "path": path, "pattern": "^line 1234.$" });
        let found = tools.call("grep", grep).await.unwrap();
        assert_eq!(found["matches"].as_array().unwrap().len(), 10, "{found}");
        // The output survives a restart, is invisible to another session, and is removed completely.
        let tools = tools.restarted();
        assert_eq!(tools.call("read", lines.clone()).await.unwrap(), read);
        let error = tools.call_of(SessionId::new(), "read", lines.clone()).await;
        assert!(
            error.unwrap_err().contains("there is no output:"),
            "{way:?}"
        );
        tools.remove(tools.session_id).await;
        assert!(tools.call("read", lines).await.is_err());
        assert_eq!(tools.stored(), 0, "{way:?}");
    }
}

#[tokio::test]
async fn short_output_is_not_stored() {
    let tools = SessionTools::new(OutputLimits::default());
    let ran = tools.shell("echo short").await;
    assert_eq!(ran["remark"], Value::Null);
    assert_eq!(tools.stored(), 0);
}

#[tokio::test]
async fn stored_output_is_limited_and_its_end_is_retained() {
    let limits = OutputLimits {
        bytes_each: 1024 * 1024,
        ..OutputLimits::default()
    };
    let tools = SessionTools::new(limits);
    let flood = json!({ "command": "echo first; yes flood | head -c 9000000; echo last" });
    let ran = tools.call("shell", flood).await.unwrap();
    let remark = ran["remark"].as_str().unwrap();
    assert!(
        remark.contains("its first 1048576 bytes and its end"),
        "{remark}"
    );
    let stored = tools.stored();
    assert!(stored > 1024 * 1024 && stored < 1200 * 1024, "{stored}");
    let path = path_in(remark);
    for (pattern, count) in [("^first$", 1), ("^last$", 1), ("bytes left out", 1)] {
        let found = tools
            .call("grep", json!({ "path": path, "pattern": pattern }))
            .await;
        let found = found.unwrap();
        assert_eq!(
            found["matches"].as_array().unwrap().len(),
            count,
            "{pattern}: {found}"
        );
    }
    // The result of a command that is stopped contains the path too.
    let endless = json!({ "command": "yes", "timeout_ms": 2_000 });
    let error = tools.call("shell", endless).await.unwrap_err();
    assert!(
        error.contains("did not end within 2000 ms"),
        "{}",
        &error[..100]
    );
    let read = tools
        .call("read", json!({ "path": path_in(&error), "lines": 1 }))
        .await;
    assert_eq!(read.unwrap()["content"], "y\n");
}

#[tokio::test]
async fn oldest_outputs_are_removed_first() {
    let limits = OutputLimits {
        bytes_each: 1024 * 1024,
        bytes_all: 3 * 1024 * 1024,
        of_session: 200,
    };
    let tools = SessionTools::new(limits);
    let mut paths = Vec::new();
    for _ in 0..6 {
        let ran = tools.shell("yes flood | head -c 800000").await;
        paths.push(path_in(ran["remark"].as_str().unwrap()));
        assert!(tools.stored() <= 3 * 1024 * 1024, "{}", tools.stored());
    }
    assert!(
        tools
            .call("read", json!({ "path": paths[0] }))
            .await
            .is_err()
    );
    assert!(
        tools
            .call("read", json!({ "path": paths[5] }))
            .await
            .is_ok()
    );
    let few = OutputLimits {
        of_session: 2,
        ..OutputLimits::default()
    };
    let tools = SessionTools::new(few);
    for _ in 0..4 {
        tools.shell("yes flood | head -c 100000").await;
    }
    assert_eq!(tools.stored(), 200_000);
}

#[tokio::test]
async fn output_paths_are_confined_and_the_store_is_hidden() {
    let tools = SessionTools::new(OutputLimits::default());
    let ran = tools.shell(LONG).await;
    let path = path_in(ran["remark"].as_str().unwrap());
    let store = tools.workspace.outside();
    fs::write(store.join("store/secret"), "s").unwrap();
    let of_session = tools.session_id.uuid().simple().to_string();
    fs::write(
        store.join("store").join(of_session).join("ABCDEF012345"),
        "s",
    )
    .unwrap();
    for name in [
        "output:../secret",
        "output:",
        "output:/etc/passwd",
        "output:..",
        "output:0123456789ag",
        &format!("{path}.json"),
        // Such a file exists, but it is not a valid ID.
        "output:ABCDEF012345",
    ] {
        for tool in ["read", "grep"] {
            let arguments = json!({ "path": name, "pattern": "." });
            let error = tools.call(tool, arguments).await.unwrap_err();
            assert!(
                error.contains("there is no output:"),
                "{tool} {name}: {error}"
            );
        }
    }
    let hidden = json!({ "path": store.join("store/secret") });
    assert!(tools.call("read", hidden).await.is_err());
    for way in crate::support::sandboxes() {
        let tools = SessionTools::confined(way, OutputLimits::default(), |_| {});
        tools.shell(LONG).await;
        let look = format!("ls -R '{}'", tools.workspace.outside().display());
        let seen = tools.shell(&look).await;
        assert!(
            !seen["output"].as_str().unwrap().contains("store"),
            "{way:?}: {seen}"
        );
    }
}
