//! The conversation as the model receives it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use windlass_core::atoms::ModelViewContext;
use windlass_core::events::PromptRef;
use windlass_core::history::History;
use windlass_core::message::Message;
use windlass_core::message_filter::MessageQuery;

use crate::thread::StepScope;

/// Returns the thread's own history, shared; or, where capabilities change the view, a copy and its name.
///
/// A view that panics is left out: the model then sees more rather than nothing.
pub(crate) fn of(scope: &StepScope<'_>, iteration: usize) -> (History, Option<PromptRef>) {
    let parts = &scope.context.contributions;
    let history = scope.thread.context();
    if parts.filters.is_empty() && parts.views.is_empty() {
        return (history.clone(), None);
    }
    let session_id = scope.thread.session_id();
    let mut query = MessageQuery::new(session_id);
    for filter in &parts.filters {
        guard(|| filter.part.apply_filters(&mut query, &filter.config));
    }
    let mut messages = query.answer(history.iter().map(|message| &**message));
    for filter in &parts.filters {
        let mut changed = messages.clone();
        if guard(|| filter.part.post_load(&mut changed, &filter.config)).is_some() {
            messages = changed;
        }
    }
    let context = ModelViewContext {
        session_id,
        model: &scope.context.model.model,
        iteration,
    };
    for view in &parts.views {
        let seen = messages.clone();
        if let Some(changed) = guard(|| view.part.apply_model_view(seen, &view.config, &context)) {
            messages = changed;
        }
    }
    let view: History = messages
        .into_iter()
        .map(std::sync::Arc::<Message>::new)
        .collect();
    let prompt = PromptRef {
        message_count: view.len(),
        last_message_id: view.last().map(|message| message.id),
        digest: view.digest().to_string(),
    };
    (view, Some(prompt))
}

fn guard<T>(apply: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(apply));
    result
        .inspect_err(|_| tracing::error!("a capability's view of the conversation panicked"))
        .ok()
}
