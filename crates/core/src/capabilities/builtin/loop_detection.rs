//! Stops an agent that repeats the same call.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::config;
use crate::capabilities::{Capability, PreToolUseDecision, PreToolUseHook};
use crate::digest::Digest128;
use crate::lock::lock;
use crate::tools::{ToolCall, ToolDefinition};
use crate::traits::ToolContext;
use crate::typed_id::{SessionId, TurnId};

/// How many sessions a guard tracks. The runtime creates a guard per turn, which needs one.
const MAX_SESSIONS: usize = 64;

/// Blocks a call that repeats the same arguments more than `max_repeats` times in a row within one turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopDetectionCapability;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    max_repeats: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_repeats: 3 }
    }
}

impl Capability for LoopDetectionCapability {
    constants!(
        "loop_detection",
        "Loop Detection",
        "Blocks calls that are repeated without change.",
        "Safety"
    );
    fn config_schema(&self) -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "max_repeats": { "type": "integer", "minimum": 1, "description": "How often a call may be made in a row" }
            },
            "additionalProperties": false
        }))
    }
    fn validate_config(&self, value: &Value) -> Result<(), String> {
        match config::<Config>(value)?.max_repeats {
            0 => Err("`max_repeats` must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }
    fn pre_tool_use_hooks(&self) -> Vec<Arc<dyn PreToolUseHook>> {
        self.pre_tool_use_hooks_with_config(&Value::Null)
    }
    fn pre_tool_use_hooks_with_config(&self, value: &Value) -> Vec<Arc<dyn PreToolUseHook>> {
        let max_repeats = config::<Config>(value).unwrap_or_default().max_repeats;
        vec![Arc::new(LoopGuard {
            max_repeats,
            recent: Mutex::default(),
        })]
    }
}

/// The last call of a session's turn, and its number of consecutive repeats.
struct CallStreak {
    session_id: SessionId,
    turn_id: Option<TurnId>,
    call: Digest128,
    count: u32,
}

struct LoopGuard {
    max_repeats: u32,
    /// The session that called last is at the end.
    recent: Mutex<Vec<CallStreak>>,
}

impl LoopGuard {
    /// Counts a call and returns how many times it was made in a row.
    fn count(&self, call: &ToolCall, ctx: &ToolContext) -> u32 {
        let named = format!("{}\0{}", call.name, call.arguments);
        let digest = Digest128::hash(named.as_bytes());
        let turn_id = ctx
            .event_context
            .as_ref()
            .and_then(|context| context.turn_id);
        let mut recent = lock(&self.recent);
        let known = recent
            .iter()
            .position(|row| row.session_id == ctx.session_id);
        let before = known.map(|index| recent.remove(index));
        let before = before.filter(|row| row.turn_id == turn_id && row.call == digest);
        let count = before.map_or(0, |row| row.count).saturating_add(1);
        if recent.len() >= MAX_SESSIONS {
            recent.remove(0);
        }
        recent.push(CallStreak {
            session_id: ctx.session_id,
            turn_id,
            call: digest,
            count,
        });
        count
    }
}

#[async_trait]
impl PreToolUseHook for LoopGuard {
    async fn before_exec(
        &self,
        call: ToolCall,
        _def: &ToolDefinition,
        ctx: &ToolContext,
    ) -> PreToolUseDecision {
        let count = self.count(&call, ctx);
        if count <= self.max_repeats {
            return PreToolUseDecision::Continue(call);
        }
        let reason = format!(
            "`{}` was called {} times in a row with the same arguments, and calling it again will not help; change the arguments, try a different approach, or report the obstacle to the user",
            call.name, self.max_repeats
        );
        let user_message = Some(format!(
            "The agent repeated `{}` and was stopped.",
            call.name
        ));
        PreToolUseDecision::Block {
            tool_call: call,
            reason,
            user_message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventContext;
    use crate::tools::BuiltinTool;

    fn guard(config: Value) -> Arc<dyn PreToolUseHook> {
        LoopDetectionCapability
            .pre_tool_use_hooks_with_config(&config)
            .remove(0)
    }

    async fn allowed(guard: &dyn PreToolUseHook, ctx: &ToolContext, argument: i32) -> bool {
        let call = ToolCall {
            id: uuid::Uuid::now_v7().to_string(),
            name: "look".into(),
            arguments: json!({"at": argument}),
        };
        let definition = ToolDefinition::Builtin(BuiltinTool::default());
        match guard.before_exec(call.clone(), &definition, ctx).await {
            PreToolUseDecision::Continue(same) => same == call,
            PreToolUseDecision::Block { reason, .. } => {
                assert!(reason.contains("`look`") && reason.contains("change the arguments"));
                false
            }
        }
    }

    fn turn(session_id: SessionId) -> ToolContext {
        let context = EventContext::of_turn(TurnId::new());
        ToolContext::new(session_id).with_event_context(context)
    }

    #[tokio::test]
    async fn repeated_call_is_blocked_and_another_is_not() {
        let (guard, ctx) = (guard(json!({"max_repeats": 2})), turn(SessionId::new()));
        for (argument, expected) in [
            (1, true),
            (1, true),
            (1, false),
            (1, false),
            (2, true),
            (1, true),
        ] {
            assert_eq!(allowed(guard.as_ref(), &ctx, argument).await, expected);
        }
    }

    #[tokio::test]
    async fn sessions_and_turns_are_counted_separately() {
        let (guard, session) = (guard(json!({"max_repeats": 1})), SessionId::new());
        let (first, other) = (turn(session), turn(SessionId::new()));
        assert!(allowed(guard.as_ref(), &first, 1).await);
        assert!(allowed(guard.as_ref(), &other, 1).await);
        assert!(!allowed(guard.as_ref(), &first, 1).await);
        assert!(allowed(guard.as_ref(), &turn(session), 1).await);
    }

    #[tokio::test]
    async fn number_of_tracked_sessions_is_bounded() {
        let guard = LoopGuard {
            max_repeats: 3,
            recent: Mutex::default(),
        };
        for _ in 0..MAX_SESSIONS * 3 {
            assert!(allowed(&guard, &turn(SessionId::new()), 1).await);
        }
        assert_eq!(guard.recent.lock().unwrap().len(), MAX_SESSIONS);
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let check = |config| LoopDetectionCapability.validate_config(&config);
        assert!(check(json!({})).is_ok() && check(json!({"max_repeats": 9})).is_ok());
        for config in [
            json!({"max_repeats": 0}),
            json!({"max_repeats": -1}),
            json!({"repeats": 1}),
        ] {
            assert!(check(config).is_err());
        }
    }
}
