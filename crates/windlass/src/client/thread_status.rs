//! The state of a thread in one line.

use windlass_protocol::{Call, RuntimeApi, Thread, Turn};

use super::calls::{self, by_id};
use super::ids::short;
use crate::terminal::{Style, money, tokens};

/// Formats a thread's model, ID, use of the context window and cost. Values that cannot be read are omitted.
pub(crate) async fn status_line(api: &dyn RuntimeApi, thread: &Thread, style: Style) -> String {
    let id = || by_id(&thread.id);
    let context = api.get_thread_context(Call::new(id(), ())).await.ok();
    // The thread may have changed since it was read.
    let model = context.as_ref().map(|context| &context.model);
    let model = thread.backend.as_ref().or(model).unwrap_or(&thread.model);
    let mut parts = vec![model.clone(), format!("thread {}", short(&thread.id))];
    if let Some(context) = context.filter(|_| thread.backend.is_none()) {
        let window = tokens(context.context_window_tokens);
        parts.push(format!("context {:.0}% of {window}", context.used_percent));
    }
    let turns = calls::all_turns(api, &thread.id).await.unwrap_or_default();
    if let Some(cost) = cost_of(&turns) {
        parts.push(format!("{} in total", money(cost)));
    }
    parts.join(style.separator())
}

/// Returns the cost of some turns; `None` if no cost is known.
pub(crate) fn cost_of(turns: &[Turn]) -> Option<f64> {
    let usages = turns.iter().filter_map(|turn| turn.usage.as_ref());
    let costs = usages.filter_map(|usage| usage.cost_usd);
    costs.reduce(|sum, cost| sum + cost)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::stub_api_test::{StubApi, detail_json, thread_json, turn_json};

    #[tokio::test]
    async fn status_names_model_context_and_cost() {
        let mut detail = detail_json();
        let turn = |cost: f64| {
            let mut turn = turn_json();
            turn["usage"] = json!({ "input_tokens": 1, "output_tokens": 1, "cost_usd": cost });
            turn
        };
        detail["turns"] = json!([turn(0.01), turn(0.02)]);
        let context = json!({
            "thread_id": "thr_1", "provider": "acme", "model": "x-1", "estimated_input_tokens": 12_000,
            "context_window_tokens": 200_000, "remaining_context_tokens": 188_000, "used_percent": 6.0,
            "auto_compact_enabled": true, "auto_compact_threshold_tokens": 160_000,
            "auto_compact_threshold_percent": 80.0, "source": "estimated_current_messages",
        });
        let api = StubApi::new(json!({ "GetThreadContext": context, "GetThread": detail }));
        let thread: Thread = serde_json::from_value(thread_json()).unwrap();
        let line = status_line(&api, &thread, Style::PLAIN).await;
        let id = short(&thread.id);
        assert_eq!(
            line,
            format!("x-1, thread {id}, context 6% of 200k, $0.03 in total")
        );
        let line = status_line(&StubApi::new(json!({})), &thread, Style::PLAIN).await;
        assert_eq!(line, format!("{}, thread {id}", thread.model));
    }
}
