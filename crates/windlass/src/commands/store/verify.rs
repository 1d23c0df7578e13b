//! `windlass store verify`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass_store::sqlite::{Report, StreamHead};

use super::progress::Progress;
use super::{StoreCommand, as_json, named};

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store verify\n  windlass store verify --data /var/backups/monday --json\n\n\
It finds records that were changed, moved, added or taken out of the middle. A tail that was cut it finds only for who \
kept the heads (--heads).";

#[derive(Args)]
pub(super) struct Verify {
    /// Writes where each stream ends, in JSON; keep it to find a cut tail later.
    #[arg(long, requires = "json")]
    heads: bool,
}

impl Verify {
    pub(super) async fn run(self, place: &StoreCommand) -> anyhow::Result<ExitCode> {
        let store = place.open_to_read().await?;
        let progress = Progress::of("verifying");
        let report = store.verify().await?;
        drop(progress);
        let Report {
            heads,
            records,
            pruned,
            findings,
        } = report;
        let streams = heads.len();
        let verdict = match findings.len() {
            0 => "sound".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            count => format!("{count} things are wrong"),
        };
        let words = format!("{streams} streams, {records} records, {pruned} pruned: {verdict}");
        let mut said = json!({
            "streams": streams,
            "records": records,
            "pruned": pruned,
            "findings": as_json(&findings),
        });
        if self.heads {
            let heads = heads.iter().map(|StreamHead { stream, seq, chain }| {
                json!({"stream": stream.to_string(), "seq": seq, "chain": chain})
            });
            said["heads"] = heads.collect();
        }
        place.tell(&said, &words)?;
        Ok(named(
            &findings,
            "save what can be read with `windlass store export FILE`; where only lists are wrong, `windlass store rebuild` makes \
             them anew; else put a backup in place with `windlass store restore`",
        ))
    }
}
