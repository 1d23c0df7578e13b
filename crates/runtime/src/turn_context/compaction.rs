//! When the history of a turn is compacted automatically.

use windlass_core::capabilities::{CompactionCapability, CompactionConfig};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{LlmCallConfig, LlmDriver};
use windlass_turn::CompactionPlan;

use super::Contributions;
use crate::settings::CompactionSettings;

/// Context window, in tokens, of a model whose window is unknown.
const UNKNOWN_WINDOW: u64 = 64_000;
/// Default maximum length of an answer, in tokens.
const MAX_ANSWER: u64 = 32_000;
/// Default number of tokens of the newest messages that stay whole.
const KEEP_RECENT: u64 = 20_000;

/// Returns the compaction settings of a turn: those of a capability override the runtime's.
pub(super) fn settings(
    runtime: Option<CompactionSettings>,
    contributions: &Contributions,
) -> Result<Option<CompactionSettings>> {
    let mut enabled = contributions.capabilities.iter();
    let own = enabled.find(|resolved| resolved.capability.id() == CompactionCapability::ID);
    let Some(own) = own else { return Ok(runtime) };
    let own = CompactionConfig::read(&own.config).map_err(AgentLoopError::config)?;
    if own.enabled == Some(false) {
        return Ok(None);
    }
    let base = runtime.unwrap_or_default();
    Ok(Some(CompactionSettings {
        window_tokens: own.window_tokens.or(base.window_tokens),
        reserve_tokens: own.reserve_tokens.or(base.reserve_tokens),
        keep_recent_tokens: own.keep_recent_tokens.or(base.keep_recent_tokens),
    }))
}

/// Fills in the unset values.
pub(super) fn plan(
    settings: CompactionSettings,
    driver: &dyn LlmDriver,
    system_prompt: &str,
    config: &LlmCallConfig,
) -> CompactionPlan {
    let of_model = || driver.context_window(&config.model);
    let window = settings.window_tokens.or_else(of_model);
    let window_tokens = window.unwrap_or(UNKNOWN_WINDOW);
    let answer = config.max_tokens.map(u64::from);
    let answer = answer.unwrap_or_else(|| MAX_ANSWER.min(window_tokens / 5));
    let reserve = settings.reserve_tokens;
    let reserve = reserve.unwrap_or(answer + window_tokens / 20);
    // A larger reserve would leave too little of the window for the conversation.
    let reserve_tokens = reserve.min(window_tokens / 2);
    let keep_recent = settings.keep_recent_tokens;
    let room = window_tokens - reserve_tokens;
    let tools = config.tools.iter().map(|tool| {
        let json = serde_json::to_string(tool);
        json.map_or(0, |json| json.len())
    });
    let prompt_bytes = system_prompt.len() + tools.sum::<usize>();
    CompactionPlan {
        window_tokens,
        reserve_tokens,
        keep_recent_tokens: keep_recent.unwrap_or(KEEP_RECENT.min(room / 4)),
        prompt_tokens: CompactionPlan::tokens_of_bytes(prompt_bytes),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver};

    use super::*;

    fn made(settings: CompactionSettings, max_tokens: Option<u32>) -> CompactionPlan {
        let config = LlmCallConfig {
            max_tokens,
            ..LlmCallConfig::default()
        };
        plan(
            settings,
            &LlmSimDriver::new(LlmSimConfig::echo()),
            "",
            &config,
        )
    }

    #[test]
    fn unset_values_are_derived_from_window_and_answer() {
        let unset = made(CompactionSettings::default(), None);
        assert_eq!(unset.window_tokens, UNKNOWN_WINDOW);
        assert_eq!(unset.reserve_tokens, 12_800 + 3_200);
        assert_eq!(unset.keep_recent_tokens, 12_000);
        assert_eq!(
            made(CompactionSettings::default(), Some(1_000)).reserve_tokens,
            4_200
        );
        let set = CompactionSettings {
            window_tokens: Some(1_000),
            reserve_tokens: Some(900),
            keep_recent_tokens: Some(7),
        };
        let set = made(set, None);
        assert_eq!((set.window_tokens, set.reserve_tokens), (1_000, 500));
        assert_eq!(set.keep_recent_tokens, 7);
    }
}
