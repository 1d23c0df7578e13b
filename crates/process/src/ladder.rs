//! How a program is asked to end before it is killed.

use std::time::Duration;

use rustix::process::Signal;

/// A way to ask a program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// Its input is closed; what was not written yet is thrown away.
    CloseInput,
    /// SIGINT to all of its processes.
    Interrupt,
    /// SIGTERM to all of its processes.
    Terminate,
}

impl Rung {
    pub(crate) fn signal(self) -> Option<Signal> {
        match self {
            Self::CloseInput => None,
            Self::Interrupt => Some(Signal::INT),
            Self::Terminate => Some(Signal::TERM),
        }
    }
}

/// The ways to ask, in order, each with the time it gets. Behind the last comes SIGKILL for the whole tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder(pub Vec<(Rung, Duration)>);

impl Ladder {
    /// SIGTERM and a grace, as commands have it.
    #[must_use]
    pub fn terminate(grace: Duration) -> Self {
        Self(vec![(Rung::Terminate, grace)])
    }

    /// All rungs, for a program that speaks a protocol over its pipes. Each gets a third of the time.
    #[must_use]
    pub fn all(within: Duration) -> Self {
        let each = within / 3;
        let rungs = [Rung::CloseInput, Rung::Interrupt, Rung::Terminate];
        Self(rungs.map(|rung| (rung, each)).into())
    }

    /// Returns how long all rungs take together.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.0.iter().map(|(_, time)| *time).sum()
    }
}
