//! The steps that request a program's exit before it is killed.

use std::time::Duration;

use rustix::process::Signal;

/// A way to request a program's exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownStep {
    /// Its input is closed; unwritten bytes are discarded.
    CloseInput,
    /// SIGINT to all of its processes.
    Interrupt,
    /// SIGTERM to all of its processes.
    Terminate,
}

impl ShutdownStep {
    pub(crate) fn signal(self) -> Option<Signal> {
        match self {
            Self::CloseInput => None,
            Self::Interrupt => Some(Signal::INT),
            Self::Terminate => Some(Signal::TERM),
        }
    }
}

/// The steps in order, each with its time limit. SIGKILL for the whole tree follows the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShutdownSequence(pub Vec<(ShutdownStep, Duration)>);

impl ShutdownSequence {
    /// SIGTERM and a grace period; the sequence for commands.
    #[must_use]
    pub fn terminate(grace: Duration) -> Self {
        Self(vec![(ShutdownStep::Terminate, grace)])
    }

    /// All steps, for a program that speaks a protocol over its pipes. Each step gets a third of the time.
    #[must_use]
    pub fn all(within: Duration) -> Self {
        let each = within / 3;
        let steps = [
            ShutdownStep::CloseInput,
            ShutdownStep::Interrupt,
            ShutdownStep::Terminate,
        ];
        Self(steps.map(|step| (step, each)).into())
    }

    /// Returns the total time limit of all steps.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.0.iter().map(|(_, time)| *time).sum()
    }
}
