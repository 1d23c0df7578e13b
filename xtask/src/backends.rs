//! `backends`: real external agents, against a fake model.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::plan::{self, OnFailure, PlanStep};
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::tally::Tally;
use crate::verify::FEATURES;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "backends",
    summary: "installs Claude Code, Codex and Gemini and runs turns of the daemon with them against a fake model",
    help: "\
Installs Claude Code, Codex and Gemini CLI from npm into target/backends, in the versions that were tried, and runs the tests that
need them, and acpx, a client that drives `windlass acp`: text, tools with approvals, steering, interrupts, kills of the daemon and of the agent, lost sessions, limits and logins.
The model is a fake on loopback, and no account is needed. An agent that cannot be had is named on a line that begins with SKIPPED,
and the others run. A checkout below /tmp cannot do this: a sandbox has its own /tmp, and the agents would not be in it.

With --quick the slow ones are left out, Gemini and the kills of Claude Code: that is what `cargo xtask test` runs.

Usage: cargo xtask backends [--quick]

Examples:
  cargo xtask backends
  cargo xtask backends --quick
",
    run,
};

/// The step for `cargo xtask test`.
pub(crate) const QUICK: PlanStep = PlanStep::Own("cargo xtask backends --quick", |tally| {
    check(tally, Extent::Quick)
});
const WHOLE: PlanStep = PlanStep::Own("cargo xtask backends", |tally| check(tally, Extent::Whole));

/// Which tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Quick,
    Whole,
}

/// An agent from the npm registry.
struct NpmAgent {
    /// Name for display.
    name: &'static str,
    /// Name of its directory and of its test module.
    module: &'static str,
    package: &'static str,
    version: &'static str,
    /// Path of the program below `node_modules`.
    program: &'static str,
    /// The environment variable with the program's path for the tests.
    variable: &'static str,
    extent: Extent,
}

const AGENTS: [NpmAgent; 4] = [
    // The platform package, which runs without Node.
    NpmAgent {
        name: "Claude Code",
        module: "claude",
        package: "@anthropic-ai/claude-code-linux-x64",
        version: "2.1.325",
        program: "@anthropic-ai/claude-code-linux-x64/claude",
        variable: "WINDLASS_CLAUDE",
        extent: Extent::Quick,
    },
    // The program itself, next to the launcher that needs Node.
    NpmAgent {
        name: "Codex",
        module: "codex",
        package: "@openai/codex",
        version: "0.166.0",
        program: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        variable: "WINDLASS_CODEX",
        extent: Extent::Quick,
    },
    // Its start takes ten seconds.
    NpmAgent {
        name: "Gemini CLI",
        module: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        program: ".bin/gemini",
        variable: "WINDLASS_GEMINI",
        extent: Extent::Whole,
    },
    // The opposite side: an ACP client for `windlass acp`.
    NpmAgent {
        name: "acpx",
        module: "editor",
        package: "acpx",
        version: "0.1.15",
        program: ".bin/acpx",
        variable: "WINDLASS_ACPX",
        extent: Extent::Quick,
    },
];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let step = match arguments.split_first() {
        Some((word, rest)) if word == "--quick" => {
            no_arguments(COMMAND.name, rest)?;
            QUICK
        }
        _ => {
            no_arguments(COMMAND.name, arguments)?;
            WHOLE
        }
    };
    plan::run(&[step], OnFailure::Stop)
}

/// Runs the tests of the available agents, and reports why the others are skipped.
fn check(tally: &mut Tally, extent: Extent) -> Result<(), XtaskError> {
    let place = command::root().join("target").join("backends");
    let wanted = AGENTS
        .iter()
        .filter(|agent| extent == Extent::Whole || agent.extent == Extent::Quick);
    let mut installed = Vec::new();
    for agent in wanted {
        match agent.install(&place) {
            Ok(program) => installed.push((agent, program)),
            Err(why) => tally.skip(&format!("cargo xtask backends: {}: {why}", agent.name)),
        }
    }
    if installed.is_empty() {
        return Ok(());
    }
    let mut cargo = command::cargo();
    // The same features as for all tests, so that nothing is rebuilt.
    cargo
        .args(["test", "--workspace"])
        .args(FEATURES)
        .args(["--test", "it", "--", "--ignored"]);
    for (agent, program) in &installed {
        cargo.arg(format!("real_agents::{}::", agent.module));
        cargo.env(agent.variable, program);
    }
    let has = |module: &str| installed.iter().any(|(agent, _)| agent.module == module);
    if has("claude") && has("codex") {
        cargo.arg("real_agents::equal_events::");
    }
    // Each of these skips missing agents.
    cargo.arg("real_agents_hooks::");
    if has("claude") && extent == Extent::Whole {
        cargo.arg("real_agents::kills::");
    }
    command::run_tests(cargo, tally)
}

impl NpmAgent {
    /// Installs the program if it is missing.
    fn install(&self, place: &Path) -> Result<PathBuf, String> {
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return Err("only Linux on x86-64 is supported".to_owned());
        }
        if place.starts_with("/tmp") {
            return Err("the checkout is below /tmp, which a sandbox replaces".to_owned());
        }
        let place = place.join(self.module);
        let modules = place.join("node_modules");
        let program = modules.join(self.program);
        let is_there = || {
            let about = modules.join(self.package).join("package.json");
            let about = std::fs::read_to_string(about).unwrap_or_default();
            about.contains(&format!("\"version\": \"{}\"", self.version)) && program.exists()
        };
        if is_there() {
            return self.works(program);
        }
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--force", "--prefix"])
            .arg(&place)
            .arg(format!("{}@{}", self.package, self.version));
        let output = npm
            .output()
            .map_err(|error| format!("npm cannot be run: {error}"))?;
        if !output.status.success() || !is_there() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.trim().lines().next_back().unwrap_or("no output");
            let (package, version) = (self.package, self.version);
            return Err(format!("npm could not install {package} {version}: {last}"));
        }
        self.works(program)
    }

    /// Runs the program with `--version`: an installed program may still lack a dependency such as Node.
    fn works(&self, program: PathBuf) -> Result<PathBuf, String> {
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|error| format!("it cannot be started: {error}"))?;
        if String::from_utf8_lossy(&output.stdout).contains(self.version) {
            Ok(program)
        } else {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.trim().lines().next_back().unwrap_or("no output");
            Err(format!("`--version` failed: {last}"))
        }
    }
}
