//! A rule, and the violations of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::error::AgentLoopError;

use crate::cursor::digest;
use crate::journal::JournalError;
use crate::ledger::LedgerError;
use crate::queries::QueryError;

pub(super) type CheckOutcome = Result<(), Violation>;
type CheckFuture = Pin<Box<dyn Future<Output = CheckOutcome> + Send>>;

/// A rule for stores of the kind `S`.
pub struct ConformanceCheck<S: ?Sized + 'static> {
    /// The name of the rule.
    pub name: &'static str,
    pub(super) run: fn(Arc<S>) -> CheckFuture,
}

impl<S: ?Sized> ConformanceCheck<S> {
    /// Checks an empty store.
    pub async fn run(&self, store: Arc<S>) -> Result<(), Violation> {
        (self.run)(store).await
    }
}

impl<S: ?Sized> fmt::Debug for ConformanceCheck<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub(super) String);

/// Returns the outcome of a failed check.
pub(super) fn broken(what: impl Into<String>) -> CheckOutcome {
    Err(Violation(what.into()))
}

impl From<AgentLoopError> for Violation {
    fn from(error: AgentLoopError) -> Self {
        Self(format!("an operation failed that must succeed: {error}"))
    }
}

impl From<JournalError> for Violation {
    fn from(error: JournalError) -> Self {
        Self(format!("an operation failed that must succeed: {error}"))
    }
}

impl From<LedgerError> for Violation {
    fn from(error: LedgerError) -> Self {
        Self(format!("an operation failed that must succeed: {error}"))
    }
}

impl From<QueryError> for Violation {
    fn from(error: QueryError) -> Self {
        Self(format!("a query failed: {error}"))
    }
}

/// Forges a cursor from a real one, as a client could: the digest does not prevent it.
pub(super) fn forged(cursor: &str, first: u64, second: u64) -> String {
    let parts: Vec<&str> = cursor.split('.').take(3).collect();
    let text = format!("{}.{first:x}.{second:x}", parts.join("."));
    format!("{text}.{}", digest(&text))
}

/// All rules that a store breaks, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations(pub Vec<(&'static str, Violation)>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules are broken", self.0.len())?;
        for (name, violation) in &self.0 {
            write!(f, "\n{name}: {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}

pub(super) async fn all<S: ?Sized + 'static>(
    checks: impl Iterator<Item = &'static ConformanceCheck<S>>,
    make: impl Fn() -> Arc<S>,
) -> Result<(), Violations> {
    all_of(checks, async || make()).await
}

pub(super) async fn all_of<S: ?Sized + 'static>(
    checks: impl Iterator<Item = &'static ConformanceCheck<S>>,
    make: impl AsyncFn() -> Arc<S>,
) -> Result<(), Violations> {
    let mut violations = Vec::new();
    for check in checks {
        if let Err(violation) = check.run(make().await).await {
            violations.push((check.name, violation));
        }
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Violations(violations))
    }
}

/// Lists functions as checks under their own names.
macro_rules! checks {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(crate::conformance::check::ConformanceCheck {
            name: stringify!($name),
            run: |store| Box::pin($module::$name(store)),
        }),*]
    };
}

/// Returns a violation unless a condition holds.
macro_rules! require {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(crate::conformance::check::Violation(format!($($message)+)));
        }
    };
}

/// Returns a violation unless two values are equal.
macro_rules! require_eq {
    ($found:expr, $expected:expr, $($message:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) => {
                if found != expected {
                    return Err(crate::conformance::check::Violation(format!(
                        "{}: found {found:?}, expected {expected:?}",
                        format_args!($($message)+)
                    )));
                }
            }
        }
    };
}
