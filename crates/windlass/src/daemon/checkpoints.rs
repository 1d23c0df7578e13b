//! Checkpoints of files that turns change.

use std::path::Path;

use anyhow::{Context, bail};
use windlass_tools::{CheckpointLimits, Checkpoints, Environments};

use crate::config;

/// Opens the store of checkpoints and completes the operation of a daemon that was killed. The processes of that daemon have ended by now.
pub(super) fn open(
    data: &Path,
    configured: &config::Checkpoints,
    environments: &Environments,
) -> anyhow::Result<()> {
    let directory = data.join("checkpoints");
    if configured.enabled == Some(false) {
        let turned_off = Checkpoints::turn_off(&directory);
        return turned_off.with_context(|| format!("cannot turn off {}", directory.display()));
    }
    let limits = limits(configured)?;
    let opened = Checkpoints::open(&directory, limits);
    let opened = opened.with_context(|| format!("cannot open {}", directory.display()))?;
    opened.finish_restores(environments);
    opened.end_cut_off_calls(environments);
    environments.enable_checkpoints(opened);
    Ok(())
}

/// Converts the storage limits of the configuration.
pub(super) fn limits(configured: &config::Checkpoints) -> anyhow::Result<CheckpointLimits> {
    let mut limits = CheckpointLimits::default();
    if let Some(megabytes) = configured.max_mb {
        if megabytes == 0 {
            bail!(
                "checkpoints.max_mb is 0, which stores nothing; set it to at least 1, or set checkpoints.enabled to false"
            );
        }
        limits.stored_bytes = megabytes.saturating_mul(1024 * 1024);
        // The files before and after a turn must both fit.
        limits.total_bytes = limits.total_bytes.min(limits.stored_bytes / 2);
    }
    Ok(limits)
}
