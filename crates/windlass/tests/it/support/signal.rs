//! Synchronization between a test and a command that an agent runs: a named pipe, at which both wait.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A named pipe in the working directory of commands.
pub(crate) struct Signal(PathBuf);

impl Signal {
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        let path = directory.join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        Self(path)
    }

    /// Waits until a command has written to it.
    #[track_caller]
    pub(crate) fn wait(&self) {
        self.within_patience(|path| fs::read(path).map(drop));
    }

    /// Unblocks a command that reads from it.
    #[track_caller]
    pub(crate) fn release(&self) {
        self.within_patience(|path| fs::write(path, "go\n"));
    }

    #[track_caller]
    fn within_patience(&self, act: fn(&Path) -> std::io::Result<()>) {
        let (send, receive) = mpsc::channel();
        let path = self.0.clone();
        std::thread::spawn(move || send.send(act(&path)));
        let acted = receive.recv_timeout(PATIENCE);
        acted
            .unwrap_or_else(|_| panic!("no process opened {}", self.0.display()))
            .unwrap();
    }
}
