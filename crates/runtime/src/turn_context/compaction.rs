//! When the history of a turn is made shorter by itself.

use windlass_core::capabilities::{CompactionCapability, CompactionConfig};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{LlmCallConfig, LlmDriver};
use windlass_turn::CompactionPlan;

use super::Contributions;
use crate::settings::CompactionSettings;

/// The window of a model of which nobody knows it.
const UNKNOWN_WINDOW: u64 = 64_000;
/// How long an answer is expected to get at most, where nobody says.
const MAX_ANSWER: u64 = 32_000;
/// How many of the newest messages stay whole, where nobody says.
const KEEP_RECENT: u64 = 20_000;

/// Returns what was set for a turn: by the runtime, and over it by a capability of its records.
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

/// Fills in what was not set.
pub(super) fn plan(
    settings: CompactionSettings,
    driver: &dyn LlmDriver,
    system_prompt: &str,
    config: &LlmCallConfig,
) -> CompactionPlan {
    let known = || driver.context_window(&config.model);
    let window = settings.window_tokens.or_else(known);
    let window_tokens = window.unwrap_or(UNKNOWN_WINDOW);
    let answer = config.max_tokens.map(u64::from);
    let answer = answer.unwrap_or_else(|| MAX_ANSWER.min(window_tokens / 5));
    let reserve = settings.reserve_tokens;
    let reserve = reserve.unwrap_or(answer + window_tokens / 20);
    // More than half would leave nothing to talk about.
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
    fn what_is_not_set_follows_from_the_window_and_the_answer() {
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
