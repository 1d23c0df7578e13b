//! The store for outputs that are too long to show.

use std::path::Path;

use anyhow::{Context, bail};
use windlass_tools::{Environments, OutputLimits, Outputs};

use crate::config;

/// Opens the store of outputs, in a directory that is hidden from tools.
pub(super) fn open(
    data: &Path,
    configured: &config::Outputs,
    environments: &Environments,
) -> anyhow::Result<()> {
    let limits = limits(configured)?;
    let directory = data.join("outputs");
    let opened = Outputs::open(&directory, limits);
    let opened = opened.with_context(|| format!("cannot open {}", directory.display()))?;
    environments.enable_outputs(opened);
    Ok(())
}

/// Converts the storage limits of the configuration.
pub(super) fn limits(configured: &config::Outputs) -> anyhow::Result<OutputLimits> {
    let mut limits = OutputLimits::default();
    let bytes = |name: &str, megabytes: Option<u64>, default: u64| match megabytes {
        Some(0) => bail!("outputs.{name} is 0, which stores nothing; set it to at least 1"),
        Some(megabytes) => Ok(megabytes.saturating_mul(1024 * 1024)),
        None => Ok(default),
    };
    limits.bytes_all = bytes("max_mb", configured.max_mb, limits.bytes_all)?;
    limits.bytes_each = bytes("each_mb", configured.each_mb, limits.bytes_each)?;
    limits.bytes_each = limits.bytes_each.min(limits.bytes_all);
    Ok(limits)
}
