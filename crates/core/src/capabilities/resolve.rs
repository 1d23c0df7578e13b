//! Resolves the capabilities that records name, dependencies first.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::capability_types::empty_config;
use super::{AgentCapabilityConfig, Capability, CapabilityRegistry, CapabilityStatus};
use crate::error::{AgentLoopError, Result};

/// A capability that contributes, with its configuration.
#[derive(Clone)]
pub struct ResolvedCapability {
    pub capability: Arc<dyn Capability>,
    pub config: Value,
}

impl std::fmt::Debug for ResolvedCapability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResolvedCapability")
            .field("id", &self.capability.id())
            .field("config", &self.config)
            .finish()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum VisitState {
    Visiting,
    Done,
}

struct Resolution<'a> {
    registry: &'a CapabilityRegistry,
    configs: HashMap<String, &'a Value>,
    marks: HashMap<String, VisitState>,
    resolved: Vec<ResolvedCapability>,
}

/// Returns the capabilities that contribute: each once, after its dependencies, in a stable order. Unavailable ones are left out.
///
/// An unknown ID, a cycle or an invalid configuration is an error that contains the ID.
pub fn resolve_capabilities(
    registry: &CapabilityRegistry,
    configs: &[AgentCapabilityConfig],
) -> Result<Vec<ResolvedCapability>> {
    let mut by_id = HashMap::with_capacity(configs.len());
    for config in configs {
        let id = find(registry, config.capability_id())?.id().to_owned();
        by_id.insert(id, &config.config);
    }
    let mut resolution = Resolution {
        registry,
        configs: by_id,
        marks: HashMap::with_capacity(configs.len()),
        resolved: Vec::with_capacity(configs.len()),
    };
    for config in configs {
        resolution.visit(config.capability_id())?;
    }
    Ok(resolution.resolved)
}

fn find<'a>(registry: &'a CapabilityRegistry, id: &str) -> Result<&'a Arc<dyn Capability>> {
    registry.get(id).ok_or_else(|| {
        AgentLoopError::config(format!(
            "unknown capability `{id}`; register it on the platform or remove it"
        ))
    })
}

impl Resolution<'_> {
    fn visit(&mut self, wanted: &str) -> Result<()> {
        let capability = find(self.registry, wanted)?;
        let id = capability.id();
        match self.marks.get(id) {
            Some(VisitState::Done) => return Ok(()),
            Some(VisitState::Visiting) => {
                return Err(AgentLoopError::config(format!(
                    "capability `{id}` depends on itself"
                )));
            }
            None => {}
        }
        if capability.status() != CapabilityStatus::Available {
            self.marks.insert(id.to_owned(), VisitState::Done);
            return Ok(());
        }
        self.marks.insert(id.to_owned(), VisitState::Visiting);
        for dependency in capability.dependencies() {
            self.visit(dependency)?;
        }
        self.marks.insert(id.to_owned(), VisitState::Done);
        let config = self
            .configs
            .get(id)
            .map_or_else(empty_config, |config| (*config).clone());
        validate(capability.as_ref(), &config)?;
        self.resolved.push(ResolvedCapability {
            capability: Arc::clone(capability),
            config,
        });
        Ok(())
    }
}

fn validate(capability: &dyn Capability, config: &Value) -> Result<()> {
    let id = capability.id();
    match catch_unwind(AssertUnwindSafe(|| capability.validate_config(config))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => Err(AgentLoopError::config(format!(
            "capability `{id}` refuses its configuration: {reason}"
        ))),
        Err(_) => Err(AgentLoopError::config(format!(
            "capability `{id}` panicked while checking its configuration"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestCapability(&'static str, Vec<&'static str>, CapabilityStatus);

    impl Capability for TestCapability {
        fn id(&self) -> &str {
            self.0
        }
        fn name(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            ""
        }
        fn dependencies(&self) -> Vec<&'static str> {
            self.1.clone()
        }
        fn aliases(&self) -> Vec<&'static str> {
            if self.0 == "b" { vec!["bee"] } else { vec![] }
        }
        fn status(&self) -> CapabilityStatus {
            self.2
        }
        fn validate_config(&self, config: &Value) -> std::result::Result<(), String> {
            if config.get("bad").is_some() {
                Err("`bad` is not allowed".into())
            } else {
                Ok(())
            }
        }
    }

    fn registry() -> CapabilityRegistry {
        use CapabilityStatus::{Available, ComingSoon};
        let mut registry = CapabilityRegistry::new();
        registry.register(TestCapability("a", vec!["bee", "c"], Available));
        registry.register(TestCapability("b", vec!["c"], Available));
        registry.register(TestCapability("c", vec![], Available));
        registry.register(TestCapability("later", vec![], ComingSoon));
        registry.register(TestCapability("x", vec!["y"], Available));
        registry.register(TestCapability("y", vec!["x"], Available));
        registry.register(TestCapability("lost", vec!["nowhere"], Available));
        registry
    }

    fn ids(configs: &[AgentCapabilityConfig]) -> std::result::Result<Vec<String>, String> {
        resolve_capabilities(&registry(), configs)
            .map(|resolved| {
                resolved
                    .iter()
                    .map(|r| r.capability.id().to_owned())
                    .collect()
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn dependencies_come_first_and_only_once() {
        assert_eq!(
            ids(&["a".into(), "c".into(), "bee".into(), "later".into()]).unwrap(),
            ["c", "b", "a"]
        );
    }

    #[test]
    fn r32_unresolvable_capability_is_named() {
        for (configs, named) in [
            (vec![AgentCapabilityConfig::new("nope")], "`nope`"),
            (vec!["x".into()], "`x`"),
            (vec!["lost".into()], "`nowhere`"),
            (
                vec![AgentCapabilityConfig::with_config(
                    "c",
                    serde_json::json!({"bad": 1}),
                )],
                "`c`",
            ),
        ] {
            let error = ids(&configs).unwrap_err();
            assert!(
                error.starts_with("Configuration error") && error.contains(named),
                "{error}"
            );
        }
    }
}
