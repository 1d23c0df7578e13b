//! Agents that speak the Agent Client Protocol over stdio; Windlass is the client.

mod failure;
mod host;
mod permission;
mod protocol;
mod update;

use std::ffi::OsString;

use windlass_core::backend::BackendSpec;

use crate::backend::Invocation;

pub use protocol::Acp;

/// How to start an ACP agent, and what its exit codes mean.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AcpSettings {
    /// Default program name.
    pub program: String,
    /// Arguments that switch the program to ACP.
    pub arguments: Vec<String>,
    /// The command-line option that selects a model, if the program has one.
    pub model_option: Option<String>,
    /// Installation hint, shown if the program is missing.
    pub how_to_install: String,
    /// Exit codes that mean "not logged in".
    pub auth_codes: Vec<i32>,
    /// Exit codes that mean "rate limited by the provider".
    pub limit_codes: Vec<i32>,
}

impl AcpSettings {
    /// Settings for any program that speaks ACP.
    pub fn new(program: impl Into<String>, arguments: Vec<String>) -> Self {
        let program = program.into();
        Self {
            how_to_install: format!("install `{program}`, or name it by its absolute path"),
            program,
            arguments,
            ..Self::default()
        }
    }

    /// Settings for Gemini CLI.
    #[must_use]
    pub fn gemini() -> Self {
        Self {
            model_option: Some("-m".to_owned()),
            how_to_install: "install it with `npm install -g @google/gemini-cli`".to_owned(),
            // 145 and 173 are HTTP 401 and 429 truncated to one byte.
            auth_codes: vec![41, 145],
            limit_codes: vec![173],
            ..Self::new("gemini", vec!["--acp".to_owned()])
        }
    }
}

pub(crate) fn invocation(spec: &BackendSpec, settings: &AcpSettings) -> Invocation {
    let words = settings.arguments.iter().chain(&spec.arguments);
    let mut arguments: Vec<OsString> = words.map(Into::into).collect();
    if let (Some(option), Some(model)) = (&settings.model_option, &spec.model) {
        arguments.extend([option.into(), model.into()]);
    }
    (arguments, Box::new(Acp::new(spec, settings.clone())))
}
