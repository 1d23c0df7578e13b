//! The sandbox methods of a machine. Tests that run programs run with each available method.

use windlass_testkit::skipped;
use windlass_tools::Confinement;

/// A sandbox method, as the configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    Bubblewrap,
    Landlock,
    None,
}

impl Sandbox {
    /// The value of `[shell] sandbox`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    /// Returns the sandboxes that work here; for the others, the test is reported as skipped.
    pub(crate) fn all(test: &str) -> Vec<Self> {
        let both = [Self::Bubblewrap, Self::Landlock].into_iter();
        both.filter(|sandbox| sandbox.is_here(test)).collect()
    }

    /// Returns whether the sandbox works here; if not, the test is reported as skipped.
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
