//! Agents of our own to drive, and looks at what they leave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use windlass_agents::{
    AcpBackend, AcpSettings, ClaudeBackend, PlaceError, Places, SessionSettings,
};
use windlass_core::backend::{
    Backend, BackendEvent, BackendOutcome, BackendSession, BackendSpec, SessionChoice,
};
use windlass_process::{Confinement, Ladder, Network, Place, Rung};
use windlass_testkit::skipped;

const STUB: &str = env!("CARGO_BIN_EXE_windlass-stub-agent");
/// For a rung that is expected to be in vain.
const SHORT: Duration = Duration::from_millis(100);

/// How the stub speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tongue {
    Claude,
    Acp,
}

pub(crate) const BOTH: [Tongue; 2] = [Tongue::Claude, Tongue::Acp];

/// A directory in which the stub works, and a way to confine it there.
pub(crate) struct World {
    pub(crate) tongue: Tongue,
    way: Confinement,
    directory: TempDir,
    program: PathBuf,
}

struct InDirectory(Confinement, PathBuf);

impl Places for InDirectory {
    fn place(&self, _spec: &BackendSpec) -> Result<Place, PlaceError> {
        let mut place = Place::in_directory(self.0, &self.1)?;
        place.bounds.network = Network::Inherit;
        Ok(place)
    }
}

impl World {
    pub(crate) fn new(tongue: Tongue) -> Self {
        Self {
            tongue,
            way: Confinement::Unconfined,
            directory: tempfile::tempdir().unwrap(),
            program: STUB.into(),
        }
    }

    /// A sandbox; `None` where it does not work, which is told.
    pub(crate) fn confined(tongue: Tongue, way: Confinement) -> Option<Self> {
        let mut world = Self::new(tongue);
        world.way = way;
        let test = std::thread::current();
        let what = format!("{} in {way:?}", test.name().unwrap_or("a test"));
        if !way.works_here() {
            skipped(&what, "it does not work on this machine");
            return None;
        }
        // A sandbox has a directory of its own for what is temporary, so the program has to be in the root.
        if world.program.starts_with("/tmp") {
            let linked = world.root().join("stub");
            if std::fs::hard_link(STUB, &linked).is_err() {
                skipped(&what, "the stub cannot be put into the sandbox");
                return None;
            }
            world.program = linked;
        }
        Some(world)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn settings() -> SessionSettings {
        SessionSettings {
            interrupt_grace: SHORT,
            ladder: Ladder(vec![(Rung::CloseInput, SHORT), (Rung::Terminate, SHORT)]),
            max_line_bytes: 1024 * 1024,
        }
    }

    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        let places = Arc::new(InDirectory(self.way, self.root()));
        match self.tongue {
            Tongue::Claude => Box::new(ClaudeBackend::new("stub", places, Self::settings())),
            Tongue::Acp => {
                let acp = AcpSettings::new("stub", vec!["--acp".to_owned()]);
                Box::new(AcpBackend::new("stub", places, Self::settings(), acp))
            }
        }
    }

    /// What the stub is started with; `start` is what it does before it is asked.
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

/// Prompts and reads all that is told.
pub(crate) async fn prompt(
    session: &dyn BackendSession,
    prompt: &str,
) -> (BackendOutcome, Vec<BackendEvent>) {
    let (events, mut told) = mpsc::channel(16);
    let reading = async {
        let mut all = Vec::new();
        while let Some(event) = told.recv().await {
            all.push(event);
        }
        all
    };
    tokio::join!(session.prompt(prompt, events), reading)
}

/// Joins the text that was told.
pub(crate) fn text(events: &[BackendEvent]) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        BackendEvent::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    pieces.collect()
}

/// Returns the living processes with such a word in their command line.
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

/// Who is left when nobody is.
pub(crate) const NOBODY: [String; 0] = [];
