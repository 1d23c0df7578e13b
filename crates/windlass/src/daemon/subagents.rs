//! Converts the configuration of subagents.

use windlass_runtime::SubagentSettings;

use crate::config::Subagents;

/// The name of the capability in the harness.
pub(super) const NAME: &str = "subagents";

/// Returns which subagents a model may start; `None` if it may start none. Backends that are not available are left out.
pub(super) fn settings<'a>(
    configured: &Subagents,
    backends: impl Iterator<Item = &'a str>,
) -> Option<SubagentSettings> {
    let default = SubagentSettings::default();
    let backends = backends.filter(|name| configured.backends.iter().any(|it| it == name));
    let settings = SubagentSettings {
        max_depth: configured.max_depth.unwrap_or(default.max_depth),
        at_once: configured.at_once.unwrap_or(default.at_once),
        per_turn: configured.per_turn.unwrap_or(default.per_turn),
        backends: backends.map(str::to_owned).collect(),
        ..default
    };
    let is_none = settings.max_depth == 0 || settings.at_once == 0 || settings.per_turn == 0;
    (configured.enabled.unwrap_or(true) && !is_none).then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_apply_and_zero_limits_disable_subagents() {
        let on = settings(&Subagents::default(), ["codex"].into_iter());
        assert_eq!(on, Some(SubagentSettings::default()));
        let none = |change: fn(&mut Subagents)| {
            let mut configured = Subagents::default();
            change(&mut configured);
            settings(&configured, std::iter::empty()).is_none()
        };
        assert!(none(|it| it.enabled = Some(false)));
        assert!(none(|it| it.max_depth = Some(0)));
        assert!(none(|it| it.at_once = Some(0)));
        assert!(none(|it| it.per_turn = Some(0)));
    }

    #[test]
    fn only_configured_available_backends_are_allowed() {
        let configured = Subagents {
            backends: vec!["codex".to_owned(), "gone".to_owned()],
            ..Subagents::default()
        };
        let settings = settings(&configured, ["claude-code", "codex"].into_iter());
        assert_eq!(settings.unwrap().backends, ["codex"]);
    }
}
