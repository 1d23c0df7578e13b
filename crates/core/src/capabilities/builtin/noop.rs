//! A capability without any effect, for tests and for records that require a capability.

use crate::capabilities::Capability;

/// A capability that contributes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopCapability;

impl Capability for NoopCapability {
    constants!("noop", "No-Op", "Contributes nothing.", "Testing");
}
