//! Automations that the host's configuration declares.

use super::{Automation, AutomationId, AutomationStatus, Automations, Plan};
use crate::error::JobError;

/// The owner of declared automations. It has the rights of the operator.
pub const CONFIGURATION: &str = "configuration";

/// An automation declared in the configuration, identified by its name.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredAutomation {
    /// Its work and its schedule.
    pub plan: Plan,
    /// Whether it follows its schedule.
    pub status: AutomationStatus,
}

impl DeclaredAutomation {
    /// Returns the ID, which is derived from the name.
    #[must_use]
    pub fn id(&self) -> AutomationId {
        AutomationId::from_name(&format!("{CONFIGURATION}\n{}", self.plan.name))
    }
}

impl Automation {
    /// Returns whether the configuration declares it, so that clients cannot change it.
    #[must_use]
    pub fn is_declared(&self) -> bool {
        self.owner == CONFIGURATION
    }
}

impl Automations {
    /// Creates, updates and removes declared automations to match the configuration. An unchanged one retains its next
    /// time.
    pub async fn declare(&self, declared: Vec<DeclaredAutomation>) -> Result<(), JobError> {
        let ids: Vec<_> = declared.iter().map(DeclaredAutomation::id).collect();
        for existing in self.declared().await? {
            if !ids.contains(&existing) {
                self.remove(existing).await?;
            }
        }
        for (id, DeclaredAutomation { plan, status }) in ids.into_iter().zip(declared) {
            let found = self
                .create_once(id, CONFIGURATION, plan.clone(), status)
                .await?;
            if found.plan != plan {
                self.update(id, |before| *before = plan).await?;
            }
            match status {
                AutomationStatus::Active => self.resume(id).await?,
                AutomationStatus::Paused => self.pause(id).await?,
            };
        }
        Ok(())
    }

    async fn declared(&self) -> Result<Vec<AutomationId>, JobError> {
        let mut ids = Vec::new();
        let take = |automation: Automation| {
            if automation.is_declared() {
                ids.push(automation.id);
            }
        };
        let store = &self.inner.ledger.store;
        store.each(super::AUTOMATION, take).await?;
        Ok(ids)
    }
}
