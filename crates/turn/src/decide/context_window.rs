//! Checks whether the next model call fits the model's context window, and decides about compaction.

use windlass_core::events::ContextCompactingData;
use windlass_core::message::MessageRole;
use windlass_core::typed_id::ExecId;

use crate::discovered_tools::tokens_of_discovered;
use crate::draft::Draft;
use crate::input::FailureDetails;
use crate::plan::CompactionPlan;

/// Maximum number of compactions before one model call, and of consecutive failures.
const MAX_ATTEMPTS: u32 = 2;

/// Whether a model call fits.
pub(super) enum ContextWindow {
    /// The request fits.
    Enough,
    /// The request does not fit: this many of the newest messages remain verbatim, and a summary replaces the others.
    Shorten { recent_messages: usize },
    /// The request does not fit, and no message can be summarized.
    Full,
}

impl Draft<'_> {
    /// The first attempt retains the recent messages, the second only the turn's input. A turn whose attempts fail continues while an answer fits.
    pub(super) fn context_window(&self) -> ContextWindow {
        let plan = self.thread.compaction_plan(self.plan());
        let (Some(plan), Some(turn)) = (plan, self.turn()) else {
            return ContextWindow::Enough;
        };
        let needed = self.needed_tokens(&plan);
        let fits = |reserve: u64| needed.saturating_add(reserve) <= plan.window_tokens;
        if fits(plan.reserve_tokens) {
            return ContextWindow::Enough;
        }
        let attempts = turn.compaction_attempts;
        let attempts = attempts.since_call.max(attempts.failed);
        let recent = match attempts {
            0 => self.recent_messages(&plan),
            _ => 0,
        };
        if attempts < MAX_ATTEMPTS && self.can_shorten(recent) {
            return ContextWindow::Shorten {
                recent_messages: recent,
            };
        }
        if fits(plan.reserve_tokens / 2) {
            ContextWindow::Enough
        } else {
            ContextWindow::Full
        }
    }

    pub(super) fn start_compaction(&mut self, recent: usize) {
        let exec_id = ExecId::from_uuid(self.new_uuid());
        let data = ContextCompactingData {
            auto: Some(true),
            kept_messages: Some(recent),
            ..ContextCompactingData::new(self.thread.context().len())
        };
        self.record_step(exec_id, data);
    }

    pub(super) fn context_full(&self, cause: Option<&str>) -> FailureDetails {
        let window = self.plan().compaction.map_or(0, |plan| plan.window_tokens);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        let message = format!(
            "The conversation does not fit the model's window of {window} tokens and could not be made shorter{cause}: \
            compact it, go back to an earlier turn, begin a new conversation, offer fewer tools, or take a model with a larger window"
        );
        let user_message = "The conversation has become too long for the model.";
        FailureDetails::new("context_full", message, user_message)
    }

    /// Returns the tokens of the next request: the provider's count of the last one, plus an estimate of the messages since.
    fn needed_tokens(&self, plan: &CompactionPlan) -> u64 {
        let context = self.thread.context();
        let discovered = self.thread.measured_context().map_or(0, |it| {
            let since = context.page(it.messages, context.len());
            tokens_of_discovered(since, self.plan())
        });
        let known = self.thread.context_tokens(plan).saturating_add(discovered);
        let steered = self.turn().into_iter().flat_map(|turn| &turn.steered);
        let steered = steered.map(|message| plan.tokens_of(message));
        steered.fold(known, u64::saturating_add)
    }

    /// Returns how many of the newest messages remain verbatim. The newest one stays, with the calls that it answers, if it fits into half of the
    /// available tokens: otherwise the model would only read the same content again.
    fn recent_messages(&self, plan: &CompactionPlan) -> usize {
        let context = self.thread.context();
        let half = plan.available_tokens() / 2;
        let (mut tokens, mut recent) = (0_u64, 0);
        for (n, message) in context.iter().rev().enumerate() {
            tokens = tokens.saturating_add(plan.tokens_of(message));
            let max = match recent {
                0 => half,
                _ => plan.keep_recent_tokens.min(half),
            };
            if tokens > max || n + 1 + self.thread.history.head() >= context.len() {
                break;
            }
            // A result stays with its call, and the call is older.
            if message.role != MessageRole::ToolResult {
                recent = n + 1;
            }
        }
        if self.can_shorten(recent) { recent } else { 0 }
    }

    /// Returns whether a summary would replace anything except the previous summary and the turn's input. The preserved input of an earlier turn
    /// counts as replaceable.
    fn can_shorten(&self, recent: usize) -> bool {
        let context = self.thread.context();
        let summary = self.thread.history.head().min(1);
        let older = context.len().saturating_sub(summary + recent);
        let input = self.turn().map(|turn| turn.input_message_id);
        let mut older = context.page(summary, older);
        older.any(|message| Some(message.id) != input)
    }
}
