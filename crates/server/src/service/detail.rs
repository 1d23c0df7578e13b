//! A whole thread, or one turn of it: a cut at one number.

use windlass_core::items::Wait;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{ThreadDetail, TurnDetail};
use windlass_store::queries;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::threads::{FoundThread, told};
use crate::{ids, view};

impl App {
    /// Returns a thread with its newest turns.
    pub(crate) async fn thread_detail(&self, id: &str, newest: usize) -> Result<ThreadDetail> {
        let not_found = || ApiError::thread_not_found(id);
        let stream = ids::parse_thread(id).ok_or_else(not_found)?.into();
        // The newest is where something may wait.
        let whole = self.queries.thread_detail(&stream, newest.max(1)).await?;
        let queries::ThreadDetail { thread, turns, .. } = whole.ok_or_else(not_found)?;
        let FoundThread { id, row, thread } = FoundThread::read(thread)?.ok_or_else(not_found)?;
        let mut detail = ThreadDetail {
            thread,
            turns: Vec::with_capacity(turns.len()),
            items: Vec::new(),
            latest_seq: row.seq,
            pending_approvals: Vec::new(),
            pending_user_inputs: Vec::new(),
            pending_dynamic_tool_calls: Vec::new(),
        };
        // What nobody keeps any more is not shown.
        let kept: Vec<_> = turns.iter().filter(|turn| !turn.row.is_pruned).collect();
        for turn in &kept[kept.len().saturating_sub(newest)..] {
            let (turn, items) = told(id, turn);
            detail.turns.push(turn);
            detail.items.extend(items);
        }
        let newest = detail.turns.last().map(|turn| turn.id.clone());
        detail.thread.latest_turn_id = newest.or(detail.thread.latest_turn_id);
        add_waits(&mut detail, id, &turns);
        Ok(detail)
    }

    /// Returns a turn with its items.
    pub(crate) async fn turn_detail(&self, id: &str, turn_id: &str) -> Result<TurnDetail> {
        let found = self.find(id).await?;
        for recorded in found.recorded(turn_id) {
            let detail = self
                .queries
                .turn_detail(&found.row.stream, recorded)
                .await?;
            let kept = detail.filter(|detail| !detail.row.is_pruned);
            if let Some((turn, items)) = kept.map(|detail| told(found.id, &detail))
                && turn.id == turn_id
            {
                return Ok(TurnDetail { turn, items });
            }
        }
        Err(ApiError::turn_not_found())
    }
}

fn add_waits(detail: &mut ThreadDetail, session_id: SessionId, turns: &[queries::TurnDetail]) {
    for change in turns.iter().flat_map(|turn| turn.log.open_waits()) {
        match change.wait {
            Wait::CallRequested(data) => detail
                .pending_dynamic_tool_calls
                .extend(view::pending_call(session_id, &change, data)),
            Wait::ApprovalRequired(data) => detail
                .pending_approvals
                .push(view::pending_approval(&change, data)),
            Wait::InputRequired(data) => detail
                .pending_user_inputs
                .push(view::pending_input(&change, data)),
            _ => {}
        }
    }
}
