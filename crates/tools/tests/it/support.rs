//! A workspace with calls of the tools in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::capabilities::Capability;
use windlass_core::tools::{Tool, ToolExecutionResult};
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::SessionId;
use windlass_testkit::skipped;
use windlass_tools::{
    Confinement, Environment, Environments, FilesCapability, Network, Policy, ShellCapability,
    ShellSettings, Unconfined,
};

/// Timeout of conditions that should become true soon.
const SOON: Duration = Duration::from_secs(60);

/// An environment `local` in a temporary directory, with a second directory outside.
pub(crate) struct TestWorkspace {
    directory: TempDir,
    pub(crate) environments: Environments,
    pub(crate) settings: ShellSettings,
    turn: Option<TurnEnvironment>,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        Self::with(Policy::default())
    }

    pub(crate) fn with(policy: Policy) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["root", "outside"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let root = directory.path().join("root");
        let local = Environment::new("local", root, policy).unwrap();
        Self {
            directory,
            environments: Environments::with_default(local),
            settings: ShellSettings::default(),
            turn: None,
        }
    }

    /// A workspace whose commands use exactly one method of confinement.
    pub(crate) fn confined(way: Confinement, policy: Policy) -> Self {
        let (ways, unconfined) = match way {
            Confinement::Unconfined => (Vec::new(), Unconfined::Allow),
            way => (vec![way], Unconfined::Refuse),
        };
        let mut workspace = Self::with(Policy {
            unconfined,
            ..policy
        });
        workspace.settings.ways = ways;
        workspace
    }

    /// Creates files; names that end with `/` are directories.
    pub(crate) fn files(self, files: &[(&str, &str)]) -> Self {
        for (name, content) in files {
            let path = self.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap()
            } else {
                fs::write(path, content).unwrap()
            }
        }
        self
    }

    pub(crate) fn turn(mut self, turn: TurnEnvironment) -> Self {
        self.turn = Some(turn);
        self
    }

    /// The same workspace, for a turn in another environment.
    pub(crate) fn at(&self, turn: TurnEnvironment) -> OtherEnvironment<'_> {
        OtherEnvironment {
            workspace: self,
            turn,
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root").canonicalize().unwrap()
    }

    pub(crate) fn outside(&self) -> PathBuf {
        let outside = self.directory.path().join("outside");
        outside.canonicalize().unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap()
    }

    pub(crate) fn context(&self) -> ToolContext {
        let mut context = ToolContext::new(SessionId::new());
        context.environment = self.turn.clone();
        context
    }

    pub(crate) fn tool(&self, name: &str) -> Box<dyn Tool> {
        let never = json!({ "approval": "never" });
        let files = FilesCapability::new(self.environments.clone());
        let shell = ShellCapability::new(self.environments.clone(), self.settings.clone());
        let mut tools = files.tools_with_config(&never);
        tools.extend(shell.tools_with_config(&never));
        tools.into_iter().find(|tool| tool.name() == name).unwrap()
    }

    /// Calls a tool; an error is the text for the model.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let tool = self.tool(name);
        let called = tool.execute_with_context(arguments, &self.context()).await;
        match called {
            ToolExecutionResult::Success(value) => Ok(value),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn shell(&self, command: &str) -> Result<Value, String> {
        self.call("shell", json!({ "command": command })).await
    }
}

/// A workspace for a turn in another environment.
pub(crate) struct OtherEnvironment<'a> {
    workspace: &'a TestWorkspace,
    turn: TurnEnvironment,
}

impl OtherEnvironment<'_> {
    pub(crate) async fn shell(&self, command: &str) -> Result<Value, String> {
        let mut context = self.workspace.context();
        context.environment = Some(self.turn.clone());
        let arguments = json!({ "command": command });
        let tool = self.workspace.tool("shell");
        match tool.execute_with_context(arguments, &context).await {
            ToolExecutionResult::Success(value) => Ok(value),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

/// The sandboxes that work on this machine. The test is reported as skipped for the others.
pub(crate) fn sandboxes() -> Vec<Confinement> {
    let both = [Confinement::Bubblewrap, Confinement::Landlock].into_iter();
    both.filter(|way| is_here(*way)).collect()
}

/// Returns whether a sandbox works on this machine; otherwise the test is reported as skipped.
pub(crate) fn is_here(way: Confinement) -> bool {
    if !way.works_here() {
        let test = std::thread::current();
        let what = format!("{} in {way:?}", test.name().unwrap_or("a test"));
        skipped(&what, "it does not work on this machine");
        return false;
    }
    true
}

/// All methods of running commands that work on this machine.
pub(crate) fn ways() -> Vec<Confinement> {
    let mut ways = sandboxes();
    ways.push(Confinement::Unconfined);
    ways
}

/// A policy that shares the network.
pub(crate) fn with_network() -> Policy {
    Policy {
        network: Network::Inherit,
        ..Policy::default()
    }
}

/// Waits until a condition is true.
pub(crate) fn soon(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lists all paths below a directory with their contents.
pub(crate) fn snapshot(directory: &Path) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let content = path.is_file().then(|| fs::read_to_string(&path).unwrap());
        if path.is_dir() {
            found.extend(snapshot(&path));
        }
        found.push((path.display().to_string(), content));
    }
    found.sort();
    found
}
