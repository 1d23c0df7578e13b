//! Test sandboxes for programs, and checks for remaining processes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_process::{
    Confinement, End, Output, Program, Running, SandboxBounds, SandboxSpec, ShutdownSequence,
    ShutdownStep, Stderr, Stdin, Stdout, open_path,
};
use windlass_testkit::skipped;

/// Timeout of conditions that should become true soon.
const SOON: Duration = Duration::from_secs(60);
/// For a step that is expected to end the program.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// For a step that is expected to have no effect.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// A directory, and the confinement of programs in it.
pub(crate) struct TestSandbox {
    pub(crate) confinement: Confinement,
    root: PathBuf,
    _directory: Option<TempDir>,
}

impl TestSandbox {
    pub(crate) fn new(confinement: Confinement) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut sandbox = Self::at(confinement, directory.path().canonicalize().unwrap());
        sandbox._directory = Some(directory);
        sandbox
    }

    /// A directory that outlives this process.
    pub(crate) fn at(confinement: Confinement, root: PathBuf) -> Self {
        Self {
            confinement,
            root,
            _directory: None,
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// A script with input and output pipes; its stderr is captured in the returned output.
    pub(crate) fn script(&self, script: &str) -> (Program, Arc<Output>) {
        let (mut program, errors) = self.program("/bin/sh");
        program.arguments = vec!["-c".into(), script.into()];
        (program, errors)
    }

    pub(crate) fn program(&self, program: &str) -> (Program, Arc<Output>) {
        let root = self.root();
        let handle = open_path(&root).unwrap();
        let errors = Arc::new(Output::new(8192, 0));
        let bounds = SandboxBounds::writable(root);
        let sandbox = SandboxSpec::new(self.confinement, bounds, handle);
        let mut program = sandbox.program(program, Arc::clone(&errors));
        program.variables = [("PATH".into(), "/usr/bin:/bin".into())].into();
        program.stdin = Stdin::Piped;
        program.stdout = Stdout::Piped;
        program.stderr = Stderr::Captured(Arc::clone(&errors));
        program.shutdown = ShutdownSequence(vec![(ShutdownStep::Terminate, SHORT)]);
        (program, errors)
    }

    /// Starts a script and waits until it prints `up`.
    pub(crate) async fn start_up(&self, script: &str) -> Running {
        let (program, errors) = self.script(script);
        up(program, &errors).await
    }

    /// Runs a script to its end.
    pub(crate) async fn run(&self, script: &str) -> End {
        let (program, _) = self.script(script);
        program.start().await.unwrap().end().await.unwrap()
    }
}

/// Starts a program and waits until it prints `up`.
pub(crate) async fn up(program: Program, errors: &Output) -> Running {
    let confinement = program.sandbox.confinement;
    let mut running = program.start().await.unwrap();
    let mut lines = running.chunks().unwrap().lines(1024);
    let line = lines.next().await.unwrap();
    assert_eq!(
        line.as_deref(),
        Some(&b"up"[..]),
        "{confinement:?}: {}",
        errors.text().0
    );
    // Read on, so that the program never writes into a closed pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next().await {} });
    running
}

/// The sandboxes that work on this machine. The test is reported as skipped for the others.
pub(crate) fn sandboxes() -> Vec<TestSandbox> {
    let both = [Confinement::Bubblewrap, Confinement::Landlock].into_iter();
    both.filter(|confinement| is_supported(*confinement))
        .map(TestSandbox::new)
        .collect()
}

/// All methods of confinement that work on this machine.
pub(crate) fn all_sandboxes() -> Vec<TestSandbox> {
    let mut all_sandboxes = sandboxes();
    all_sandboxes.push(TestSandbox::new(Confinement::Unconfined));
    all_sandboxes
}

pub(crate) fn is_supported(confinement: Confinement) -> bool {
    if confinement == Confinement::Unconfined || confinement.works_here() {
        return true;
    }
    let test = std::thread::current();
    let what = format!("{} in {confinement:?}", test.name().unwrap_or("a test"));
    skipped(&what, "it does not work on this machine");
    false
}

/// The start time of a process, in the system's units.
pub(crate) fn start_time(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace();
    fields.nth(19).unwrap().parse().unwrap()
}

/// Waits until a condition is true.
pub(crate) fn soon(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An empty list of processes.
pub(crate) const NO_PROCESSES: [u32; 0] = [];
