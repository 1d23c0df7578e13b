//! The ways in which programs are confined on a machine. A test that runs programs runs in each that there is.

use windlass_testkit::skipped;
use windlass_tools::Confinement;

/// How a daemon confines programs, as its configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    Bubblewrap,
    Landlock,
    None,
}

impl Sandbox {
    /// What `[shell] sandbox` says.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    /// Returns the sandboxes that work here; for those that do not, the test is told as skipped.
    pub(crate) fn all(test: &str) -> Vec<Self> {
        let mut here = Vec::new();
        for (sandbox, way) in [
            (Self::Bubblewrap, Confinement::Bubblewrap),
            (Self::Landlock, Confinement::Landlock),
        ] {
            match way.works_here() {
                true => here.push(sandbox),
                false => skipped(
                    &format!("{test} in {}", sandbox.name()),
                    "it does not work on this machine",
                ),
            }
        }
        here
    }
}
