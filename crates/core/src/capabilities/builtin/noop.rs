//! A capability without any effect, for tests and for records that require a capability.

use crate::capabilities::Capability;

/// A capability that contributes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopCapability;

impl Capability for NoopCapability {
    fn id(&self) -> &str {
        "noop"
    }
    fn name(&self) -> &str {
        "No-Op"
    }
    fn description(&self) -> &str {
        "Contributes nothing."
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn category(&self) -> Option<&str> {
        Some("Testing")
    }
}
