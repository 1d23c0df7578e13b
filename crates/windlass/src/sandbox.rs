//! How programs are confined, as the configuration says.

use windlass_tools::Confinement;

use crate::config::Sandbox;

/// Returns the ways to confine programs, best first; the first that works here is taken.
pub(crate) fn ways(configured: Sandbox) -> Vec<Confinement> {
    match configured {
        Sandbox::Auto => vec![Confinement::Bubblewrap, Confinement::Landlock],
        Sandbox::Bubblewrap => vec![Confinement::Bubblewrap],
        Sandbox::Landlock => vec![Confinement::Landlock],
        Sandbox::None => Vec::new(),
    }
}

/// Names the way that is taken here.
pub(crate) fn found(ways: &[Confinement]) -> &'static str {
    let found = ways.iter().find(|way| way.works_here());
    found.map_or("none", |way| way.name())
}
