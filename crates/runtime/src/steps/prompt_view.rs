//! The conversation as the model receives it.

use windlass_core::atoms::ModelViewContext;
use windlass_core::events::PromptRef;
use windlass_core::history::History;
use windlass_core::message::Message;
use windlass_core::message_filter::MessageQuery;

use crate::panics::catch_panic;
use crate::thread::StepScope;

/// Returns the thread's own history, shared; or, where capabilities change the view, a copy and its name.
///
/// A view that panics is skipped.
pub(crate) fn build(scope: &StepScope<'_>, iteration: usize) -> (History, Option<PromptRef>) {
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
    let prompt = reference(&view);
    (view, Some(prompt))
}

/// Returns the recorded reference to the messages of a request.
pub(super) fn reference(messages: &History) -> PromptRef {
    PromptRef {
        message_count: messages.len(),
        last_message_id: messages.last().map(|message| message.id),
        digest: messages.digest().to_string(),
    }
}

fn guard<T>(apply: impl FnOnce() -> T) -> Option<T> {
    let result = catch_panic(apply);
    if result.is_none() {
        tracing::error!("a capability's view of the conversation panicked");
    }
    result
}
