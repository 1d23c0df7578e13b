//! Drives an installed agent in a directory and prints its events.
//!
//! ```text
//! cargo run -p windlass-external-agents --example drive -- claude --in DIR [--command PROGRAM] [--resume ID] [--model MODEL]
//!     [--var NAME=VALUE]… [--arg ARGUMENT]… [--confined] [--writable DIR]… [--approval POLICY] PROMPT…
//! ```
//!
//! Backends: `claude`, `codex`, `gemini`. One process gets the prompts one after the other. A prompt with the prefix `^` is interrupted at
//! the first text; one with `+` is steered with `and this` at the first call. Every permission is granted, and without `--confined` the agent
//! runs without a sandbox.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use windlass_core::backend::{
    Backend, BackendEvent, BackendSession, BackendSpec, PermissionDecision, SessionChoice,
};
use windlass_external_agents::{
    AcpSettings, AgentKind, CodexSettings, ExternalAgent, SandboxError, SandboxProvider,
    SessionSettings,
};
use windlass_process::{Confinement, Network, SandboxSpec};

struct InDirectory(Confinement, PathBuf, Vec<PathBuf>);

impl SandboxProvider for InDirectory {
    fn sandbox(&self, _spec: &BackendSpec) -> Result<SandboxSpec, SandboxError> {
        let mut sandbox = SandboxSpec::in_directory(self.0, &self.1)?;
        sandbox.bounds.network = Network::Inherit;
        sandbox.bounds.also_writable.clone_from(&self.2);
        Ok(sandbox)
    }
}

fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let name = words.next().ok_or("name a backend")?;
    let mut spec = BackendSpec::new("example", ".");
    let mut confinement = Confinement::Unconfined;
    let mut prompts = Vec::new();
    let mut writable = Vec::new();
    let mut codex = CodexSettings::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        match word.as_str() {
            "--in" => spec.cwd = PathBuf::from(value()?).canonicalize()?,
            "--command" => spec.command = Some(value()?.into()),
            "--resume" => spec.session = SessionChoice::Resume { id: value()? },
            "--model" => spec.model = Some(value()?),
            "--arg" => spec.arguments.push(value()?),
            "--var" => {
                let pair = value()?;
                let (name, value) = pair.split_once('=').ok_or("a variable is NAME=VALUE")?;
                spec.variables.insert(name.to_owned(), value.to_owned());
            }
            "--writable" => writable.push(PathBuf::from(value()?).canonicalize()?),
            "--approval" => codex.approval_policy = Some(value()?),
            "--confined" => confinement = Confinement::Bubblewrap,
            _ => prompts.push(word),
        }
    }
    let sandboxes = Arc::new(InDirectory(confinement, spec.cwd.clone(), writable));
    let settings = SessionSettings::default();
    let kind = match name.as_str() {
        "claude" => AgentKind::ClaudeCode,
        "codex" => AgentKind::Codex(codex),
        "gemini" => AgentKind::Acp(AcpSettings::gemini()),
        other => return Err(format!("there is no backend {other}").into()),
    };
    let backend = ExternalAgent::new(name, sandboxes, settings, kind);
    if let SessionChoice::New { id } = &mut spec.session {
        *id = backend.choose_session();
    }
    say(format_args!(
        "version: {}",
        backend.check(&spec).await?.version
    ));
    let session = backend.open(spec).await?;
    for prompt in &prompts {
        turn(session.as_ref(), prompt).await;
    }
    say(format_args!(
        "closed: {:?} {:?}",
        session.close().await,
        session.status()
    ));
    Ok(())
}

async fn turn(session: &dyn BackendSession, prompt: &str) {
    let (events, mut received) = mpsc::channel(64);
    let text = prompt.trim_start_matches(['^', '+']);
    let reading = async {
        while let Some(event) = received.recv().await {
            say(format_args!("  {event:?}"));
            match &event {
                BackendEvent::Permission(request) => {
                    let allow = PermissionDecision::Allow;
                    say(format_args!(
                        "  answered: {:?}",
                        session.answer(&request.id, allow).await
                    ));
                }
                BackendEvent::Text { .. } if prompt.starts_with('^') => {
                    say(format_args!(
                        "  interrupted: {:?}",
                        session.interrupt().await
                    ));
                }
                BackendEvent::ToolStarted(_) if prompt.starts_with('+') => {
                    say(format_args!(
                        "  steered: {:?}",
                        session.steer("and this").await
                    ));
                }
                _ => {}
            }
        }
    };
    let (outcome, ()) = tokio::join!(session.prompt(text, events), reading);
    say(format_args!("{outcome:?}"));
}
