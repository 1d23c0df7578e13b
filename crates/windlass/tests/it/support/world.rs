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
        let both = [Self::Bubblewrap, Self::Landlock].into_iter();
        both.filter(|sandbox| sandbox.is_here(test)).collect()
    }

    /// Tells whether it works here; if it does not, the test is told as skipped.
    pub(crate) fn is_here(self, test: &str) -> bool {
        let is_here = match self {
            Self::Bubblewrap => Confinement::Bubblewrap.works_here(),
            Self::Landlock => Confinement::Landlock.works_here(),
            Self::None => true,
        };
        if !is_here {
            let what = format!("{test} in {}", self.name());
            skipped(&what, "it does not work on this machine");
        }
        is_here
    }
}
