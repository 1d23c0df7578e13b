//! Checks that the records of a thread are those that were written.

use windlass_protocol::{VerifiedThread, VerifyFinding};
use windlass_store::ChainCheck;

use crate::operations::prelude::*;

/// Maximum number of findings in a response.
const MAX_FINDINGS: usize = 50;

/// Reads all records of a thread, so only one thread is checked at a time.
impl Handle<op::VerifyThread> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::VerifyThread>,
    ) -> Result<VerifiedThread> {
        let found = self.find(&call.path.id).await?;
        let _alone = self.verifying.lock().await;
        let checked = self.runtime.journal().verify(&found.id.into()).await?;
        Ok(verified(checked, found.row.seq))
    }
}

fn verified(checked: Option<ChainCheck>, row_seq: u64) -> VerifiedThread {
    let Some(checked) = checked else {
        return VerifiedThread {
            latest_seq: row_seq,
            ..VerifiedThread::default()
        };
    };
    let damaged_seq = checked.findings.iter().filter_map(|(seq, _)| *seq).min();
    let verified_seq = damaged_seq.map_or(checked.head, |seq| seq.saturating_sub(1));
    let findings = checked.findings.into_iter().take(MAX_FINDINGS);
    VerifiedThread {
        verified_seq: Some(verified_seq),
        latest_seq: checked.head.max(row_seq),
        damaged_seq,
        chain: Some(checked.chain),
        pruned: checked.pruned,
        findings: findings
            .map(|(seq, problem)| VerifyFinding { seq, problem })
            .collect(),
    }
}
