//! The stub agents of the tests, and checks of what they leave behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use windlass_core::backend::{
    Backend, BackendEvent, BackendOutcome, BackendSession, BackendSpec, SessionChoice,
};
use windlass_external_agents::{
    AcpSettings, AgentKind, ExternalAgent, SandboxError, SandboxProvider, SessionSettings,
};
use windlass_process::{Confinement, Network, SandboxSpec, ShutdownSequence, ShutdownStep};
use windlass_testkit::skipped;

const STUB: &str = env!("CARGO_BIN_EXE_windlass-stub-agent");
/// For a shutdown step that is expected to fail.
const SHORT: Duration = Duration::from_millis(100);

/// The protocol of the stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StubProtocol {
    Claude,
    Acp,
}

pub(crate) const BOTH: [StubProtocol; 2] = [StubProtocol::Claude, StubProtocol::Acp];

/// The working directory of the stub, and its confinement.
pub(crate) struct StubFixture {
    pub(crate) protocol: StubProtocol,
    confinement: Confinement,
    directory: TempDir,
    program: PathBuf,
}

struct InDirectory(Confinement, PathBuf);

impl SandboxProvider for InDirectory {
    fn sandbox(&self, _spec: &BackendSpec) -> Result<SandboxSpec, SandboxError> {
        let mut sandbox = SandboxSpec::in_directory(self.0, &self.1)?;
        sandbox.bounds.network = Network::Inherit;
        Ok(sandbox)
    }
}

impl StubFixture {
    pub(crate) fn new(protocol: StubProtocol) -> Self {
        Self {
            protocol,
            confinement: Confinement::Unconfined,
            directory: tempfile::tempdir().unwrap(),
            program: STUB.into(),
        }
    }

    /// A sandbox; `None` if it is not available, which is logged.
    pub(crate) fn confined(protocol: StubProtocol, confinement: Confinement) -> Option<Self> {
        let mut fixture = Self::new(protocol);
        fixture.confinement = confinement;
        let test = std::thread::current();
        let what = format!("{} in {confinement:?}", test.name().unwrap_or("a test"));
        if !confinement.works_here() {
            skipped(&what, "it does not work on this machine");
            return None;
        }
        // A sandbox has its own directory for temporary files, so the program must be in the root.
        if fixture.program.starts_with("/tmp") {
            let linked = fixture.root().join("stub");
            if std::fs::hard_link(STUB, &linked).is_err() {
                skipped(&what, "the stub cannot be put into the sandbox");
                return None;
            }
            fixture.program = linked;
        }
        Some(fixture)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn settings() -> SessionSettings {
        SessionSettings {
            interrupt_grace: SHORT,
            shutdown: ShutdownSequence(vec![
                (ShutdownStep::CloseInput, SHORT),
                (ShutdownStep::Terminate, SHORT),
            ]),
            max_line_bytes: 1024 * 1024,
        }
    }

    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        let sandboxes = Arc::new(InDirectory(self.confinement, self.root()));
        let kind = match self.protocol {
            StubProtocol::Claude => AgentKind::ClaudeCode,
            StubProtocol::Acp => AgentKind::Acp(AcpSettings::new("stub", vec!["--acp".to_owned()])),
        };
        let agent = ExternalAgent::new("stub", sandboxes, Self::settings(), kind);
        Box::new(agent)
    }

    /// The spec of the stub; `start` is its orders before the first prompt.
    pub(crate) fn spec(&self, start: &str) -> BackendSpec {
        let mut spec = BackendSpec::new("test", self.root());
        spec.command = Some(self.program.clone());
        spec.variables = BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("STUB_START".to_owned(), start.to_owned()),
        ]);
        spec.session = SessionChoice::New {
            id: self.backend().choose_session(),
        };
        spec
    }

    pub(crate) async fn open(&self, start: &str) -> Box<dyn BackendSession> {
        self.backend().open(self.spec(start)).await.unwrap()
    }
}

/// Sends a prompt and reads all events.
pub(crate) async fn prompt(
    session: &dyn BackendSession,
    prompt: &str,
) -> (BackendOutcome, Vec<BackendEvent>) {
    let (events, mut received) = mpsc::channel(16);
    let reading = async {
        let mut all = Vec::new();
        while let Some(event) = received.recv().await {
            all.push(event);
        }
        all
    };
    tokio::join!(session.prompt(prompt, events), reading)
}

/// Joins the text of the events.
pub(crate) fn text(events: &[BackendEvent]) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        BackendEvent::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    pieces.collect()
}

/// Returns the live processes with this word in their command line.
pub(crate) fn processes_with(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (pid != std::process::id() && line.contains(word)).then_some(line)
    });
    lines.collect()
}

/// No process is left.
pub(crate) const NO_PROCESSES: [String; 0] = [];
