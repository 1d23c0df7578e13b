//! Whether the next model call fits the model's window, and what to do where it does not.

use windlass_core::events::ContextCompactingData;
use windlass_core::message::MessageRole;
use windlass_core::typed_id::ExecId;

use crate::draft::Draft;
use crate::found::tokens_of_found;
use crate::input::Failure;
use crate::plan::CompactionPlan;

/// How often the history is made shorter before one model call, and how often that may fail in a row.
const MAX_TRIES: u32 = 2;

/// Whether a model call fits.
pub(super) enum Room {
    /// It does.
    Enough,
    /// It does not yet: so many of the newest messages stay whole, and a summary takes the place of the others.
    Shorten { kept: usize },
    /// It does not, and nothing can be made shorter.
    Full,
}

impl Draft<'_> {
    /// The first attempt keeps what is recent, the second nothing but the turn's input. A turn whose attempts fail goes on while there is room for an answer.
    pub(super) fn room(&self) -> Room {
        let plan = self.thread.compaction_plan(self.plan());
        let (Some(plan), Some(turn)) = (plan, self.turn()) else {
            return Room::Enough;
        };
        let needed = self.needed_tokens(&plan);
        let fits = |reserve: u64| needed.saturating_add(reserve) <= plan.window_tokens;
        if fits(plan.reserve_tokens) {
            return Room::Enough;
        }
        let tries = turn.tries;
        let tried = tries.since_call.max(tries.failed);
        let kept = match tried {
            0 => self.recent(&plan),
            _ => 0,
        };
        if tried < MAX_TRIES && self.can_shorten(kept) {
            return Room::Shorten { kept };
        }
        match fits(plan.reserve_tokens / 2) {
            true => Room::Enough,
            false => Room::Full,
        }
    }

    pub(super) fn start_compaction(&mut self, kept: usize) {
        let exec_id = ExecId::from_uuid(self.new_uuid());
        let data = ContextCompactingData {
            message_count: self.thread.context().len(),
            auto: Some(true),
            kept_messages: Some(kept),
        };
        self.record_step(exec_id, data);
    }

    pub(super) fn context_full(&self, cause: Option<&str>) -> Failure {
        let window = self.plan().compaction.map_or(0, |plan| plan.window_tokens);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        Failure {
            code: "context_full".to_owned(),
            message: format!(
                "The conversation does not fit the model's window of {window} tokens and could not be made shorter{cause}: \
                compact it, go back to an earlier turn, begin a new conversation, offer fewer tools, or take a model with a larger window"
            ),
            user_message: "The conversation has become too long for the model.".to_owned(),
            fields: None,
        }
    }

    /// How many tokens the next request has: what the provider counted in the last one, and an estimate of what came since.
    fn needed_tokens(&self, plan: &CompactionPlan) -> u64 {
        let context = self.thread.context();
        let found = self.thread.measured_context().map_or(0, |it| {
            let since = context.page(it.messages, context.len());
            tokens_of_found(since, self.plan())
        });
        let known = self.thread.context_tokens(plan).saturating_add(found);
        let steered = self.turn().into_iter().flat_map(|turn| &turn.steered);
        let steered = steered.map(|message| plan.tokens_of(message));
        steered.fold(known, u64::saturating_add)
    }

    /// How many of the newest messages stay whole. The newest of all, with the calls that it answers, stays if half of the room is enough for it: what was
    /// just read would only be read again.
    fn recent(&self, plan: &CompactionPlan) -> usize {
        let context = self.thread.context();
        let half = plan.room() / 2;
        let (mut tokens, mut kept) = (0_u64, 0);
        for (n, message) in context.iter().rev().enumerate() {
            tokens = tokens.saturating_add(plan.tokens_of(message));
            let max = match kept {
                0 => half,
                _ => plan.keep_recent_tokens.min(half),
            };
            if tokens > max || n + 1 + self.thread.history.head() >= context.len() {
                break;
            }
            // A result stays with its call, and the call is older.
            if message.role != MessageRole::ToolResult {
                kept = n + 1;
            }
        }
        match self.can_shorten(kept) {
            true => kept,
            false => 0,
        }
    }

    /// Tells whether a summary would stand for anything but the summary before it and the turn's input. What an earlier turn was about, and was kept
    /// whole for it, is something.
    fn can_shorten(&self, kept: usize) -> bool {
        let context = self.thread.context();
        let summary = self.thread.history.head().min(1);
        let older = context.len().saturating_sub(summary + kept);
        let input = self.turn().map(|turn| turn.input_message_id);
        let mut older = context.page(summary, older);
        older.any(|message| Some(message.id) != input)
    }
}
