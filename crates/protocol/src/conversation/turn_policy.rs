//! The options of a turn that requests and records share, declared once.

use crate::mode::Mode;

/// Options of a turn. `None` leaves the choice to the thread, then to the daemon's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnPolicyParams {
    /// Model, as `provider/model`, a name of it, or `auto`. Default: the configured one.
    pub model: Option<String>,
    /// How freely the agent works.
    pub mode: Option<Mode>,
    /// Whether the agent may run commands.
    pub allow_shell: Option<bool>,
    /// Whether the workspace is trusted.
    pub trust_mode: Option<bool>,
    /// Whether calls run without an approval.
    pub auto_approve: Option<bool>,
    /// The external agent or the configured API that runs the turns.
    pub backend: Option<String>,
    /// Reasoning effort of the model.
    pub reasoning_effort: Option<String>,
}

impl TurnPolicyParams {
    /// Fills the options that are open here from a wider scope.
    #[must_use]
    pub fn or(self, wider: Self) -> Self {
        Self {
            model: self.model.or(wider.model),
            mode: self.mode.or(wider.mode),
            allow_shell: self.allow_shell.or(wider.allow_shell),
            trust_mode: self.trust_mode.or(wider.trust_mode),
            auto_approve: self.auto_approve.or(wider.auto_approve),
            backend: self.backend.or(wider.backend),
            reasoning_effort: self.reasoning_effort.or(wider.reasoning_effort),
        }
    }

    /// Denies all commands of the turn.
    #[must_use]
    pub fn without_shell(self) -> Self {
        Self {
            allow_shell: Some(false),
            ..self
        }
    }
}

/// Declares a struct with options of a turn among its fields; they cannot be flattened, because then unknown fields of a request would
/// not be found.
///
/// `..model`, `..permissions` (mode, shell, trust, approvals), `..unattended` (shell, approvals), `..backend` and `..reasoning_effort`
/// stand for the fields. A `request` has optional ones and the methods `policy` and `with_policy`. A `record` has the values of
/// `..model` and `..permissions`, and `with_policy` sets those that are given.
macro_rules! turn_policy {
    ($(#[$($attr:tt)*])* pub struct $name:ident: $kind:ident { $($fields:tt)* }) => {
        turn_policy!(@field $kind [$(#[$($attr)*])*] $name {} [] $($fields)*);
    };
    (@field request $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..model, $($rest:tt)*) => {
        turn_policy!(@field request $head $name {
            $($done)*
            /// Model. Default: the model of the thread, else of the daemon's settings; `auto` always means the latter.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub model: Option<String>,
        } [$($policy)* model] $($rest)*);
    };
    (@field record $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..model, $($rest:tt)*) => {
        turn_policy!(@field record $head $name {
            $($done)*
            /// Model, without its provider.
            pub model: String,
        } [$($policy)* model] $($rest)*);
    };
    (@field request $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..permissions, $($rest:tt)*) => {
        turn_policy!(@field request $head $name {
            $($done)*
            /// How freely the agent works.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mode: Option<$crate::mode::Mode>,
            /// Whether the agent may run commands.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub allow_shell: Option<bool>,
            /// Whether the workspace is trusted; stored and shown.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub trust_mode: Option<bool>,
            /// Whether calls run without an approval.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub auto_approve: Option<bool>,
        } [$($policy)* mode allow_shell trust_mode auto_approve] $($rest)*);
    };
    (@field record $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..permissions, $($rest:tt)*) => {
        turn_policy!(@field record $head $name {
            $($done)*
            /// How freely the agent works.
            pub mode: $crate::mode::Mode,
            /// Whether the agent may run commands.
            pub allow_shell: bool,
            /// Whether the workspace is trusted; stored and shown.
            pub trust_mode: bool,
            /// Whether calls run without an approval.
            pub auto_approve: bool,
        } [$($policy)* mode allow_shell trust_mode auto_approve] $($rest)*);
    };
    (@field request $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..unattended, $($rest:tt)*) => {
        turn_policy!(@field request $head $name {
            $($done)*
            /// Whether the agent may run commands.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub allow_shell: Option<bool>,
            /// Whether calls run without an approval.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub auto_approve: Option<bool>,
        } [$($policy)* allow_shell auto_approve] $($rest)*);
    };
    (@field request $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..backend, $($rest:tt)*) => {
        turn_policy!(@field request $head $name {
            $($done)*
            /// External agent that executes the turns, such as `claude-code`, or a configured API. Default: the daemon's own agent.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub backend: Option<String>,
        } [$($policy)* backend] $($rest)*);
    };
    (@field request $head:tt $name:ident { $($done:tt)* } [$($policy:ident)*] ..reasoning_effort, $($rest:tt)*) => {
        turn_policy!(@field request $head $name {
            $($done)*
            /// Reasoning effort of the model.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reasoning_effort: Option<String>,
        } [$($policy)* reasoning_effort] $($rest)*);
    };
    (@field $kind:ident $head:tt $name:ident { $($done:tt)* } $policy:tt $(#[$($attr:tt)*])* pub $field:ident: $ty:ty, $($rest:tt)*) => {
        turn_policy!(@field $kind $head $name { $($done)* $(#[$($attr)*])* pub $field: $ty, } $policy $($rest)*);
    };
    (@field $kind:ident [$($head:tt)*] $name:ident { $($done:tt)* } $policy:tt) => {
        $($head)*
        pub struct $name { $($done)* }
        turn_policy!(@methods $kind $name $policy);
    };
    (@methods request $name:ident [$($policy:ident)*]) => {
        impl $name {
            /// Returns the options of a turn that it sets.
            #[must_use]
            pub fn policy(&self) -> $crate::turn_policy::TurnPolicyParams {
                let mut policy = $crate::turn_policy::TurnPolicyParams::default();
                $(policy.$policy.clone_from(&self.$policy);)*
                policy
            }

            /// Replaces the options of a turn; those that it does not have are ignored.
            #[must_use]
            pub fn with_policy(mut self, policy: &$crate::turn_policy::TurnPolicyParams) -> Self {
                $(self.$policy.clone_from(&policy.$policy);)*
                self
            }
        }
    };
    (@methods record $name:ident [$($policy:ident)*]) => {
        impl $name {
            /// Sets the options of a turn that are given.
            #[must_use]
            pub fn with_policy(mut self, policy: &$crate::turn_policy::TurnPolicyParams) -> Self {
                $(if let Some(value) = &policy.$policy {
                    self.$policy.clone_from(value);
                })*
                self
            }
        }
    };
}
pub(crate) use turn_policy;
