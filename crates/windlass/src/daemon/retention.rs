//! Converts `[retention]`: what the daemon prunes, and how often.

use std::time::Duration;

use anyhow::bail;
use windlass_runtime::SqliteRetention;
use windlass_server::Upkeep;

use crate::config;

const MINUTE: Duration = Duration::from_secs(60);
/// Clients that reconnect within a day rebuild an answer from its chunks.
const MIN_CHUNK_HOURS: u32 = 24;

/// Reads `[retention]`.
pub(crate) fn convert(configured: &config::Retention) -> anyhow::Result<(SqliteRetention, Upkeep)> {
    let hours = |hours: u32| MINUTE * 60 * hours;
    if let Some(hours) = configured
        .text_chunk_hours
        .filter(|hours| *hours < MIN_CHUNK_HOURS)
    {
        bail!(
            "retention.text_chunk_hours is {hours}, but clients may need text chunks for {MIN_CHUNK_HOURS} hours; \
             set it to at least that"
        );
    }
    if configured.max_age_days == Some(0) {
        bail!(
            "retention.max_age_days is 0, which stores nothing; set it to at least 1, or omit it"
        );
    }
    let retention = SqliteRetention {
        text_chunks: configured.text_chunk_hours.map(hours),
        max_age: configured.max_age_days.map(|days| hours(24) * days),
        max_bytes: configured.max_bytes,
    };
    let upkeep = Upkeep {
        every: match configured.every_minutes {
            Some(0) => None,
            Some(minutes) => Some(MINUTE * minutes),
            None => Upkeep::default().every,
        },
    };
    Ok((retention, upkeep))
}
