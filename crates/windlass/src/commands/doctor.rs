//! `windlass doctor`: checks this machine and advises how to fix problems.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tokio::net::UnixStream;
use windlass_core::bounds::one_line;
use windlass_core::mcp::{DiscoveredTools, McpReach, McpScope};
use windlass_core::typed_id::SessionId;
use windlass_jobs::EXPENDABLE_RECORDS;
use windlass_store::{SqliteOptions, SqliteStore};
use windlass_tools::Confinement;

use crate::backends::{BUILT_IN_AGENTS, BuiltInAgent, is_installed};
use crate::cli::{GlobalOptions, error_text, or_current, printable, set_variable};
use crate::config::{self, Config, Origin, unknown_tools};
use crate::daemon::check::ConfigCheck;
use crate::daemon::{mcp, named_secrets, probe};
use crate::inert_json::write_json;
use crate::model::{self, Choice};
use crate::terminal::{Colour, Style, columns, wrap_words};
use crate::{daemon, data, sandbox};

/// Recommended free space for the data, in bytes.
const RECOMMENDED_FREE: u64 = 1024 * 1024 * 1024;

/// Time limit for all MCP servers together to start and list their tools.
const MCP_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks this machine: sandbox, models, data, daemon and external agents; and suggests fixes.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes a line of JSON for each finding.
    #[arg(long)]
    json: bool,
}

/// The status of a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FindingStatus {
    Good,
    /// A feature is degraded or not set up yet.
    Lacking,
    Bad,
}

struct Finding {
    about: &'static str,
    status: FindingStatus,
    text: String,
    /// How to fix it.
    advice: Option<String>,
}

impl Finding {
    fn new(about: &'static str, status: FindingStatus, text: impl Into<String>) -> Self {
        Self {
            about,
            status,
            text: text.into(),
            advice: None,
        }
    }

    fn good(about: &'static str, text: impl Into<String>) -> Self {
        Self::new(about, FindingStatus::Good, text)
    }

    fn lacking(about: &'static str, text: impl Into<String>) -> Self {
        Self::new(about, FindingStatus::Lacking, text)
    }

    fn bad(about: &'static str, text: impl Into<String>) -> Self {
        Self::new(about, FindingStatus::Bad, text)
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl Doctor {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let named_config = global.config.as_deref();
        let data = data::directory(self.data.clone());
        // Without a data directory, no file is trusted, so only a file from the command line is read.
        let data_path = data.as_deref().unwrap_or(Path::new(""));
        let (config, mut configuration) = if data.is_ok() || named_config.is_some() {
            configuration(named_config, data_path)
        } else {
            (Config::default(), no_configuration())
        };
        let model = selected_model(&config);
        if configuration.status == FindingStatus::Good {
            let rejected = rejected(&config, data_path, model.status == FindingStatus::Bad);
            configuration = rejected.unwrap_or(configuration);
        }
        let mut findings = vec![version(), configuration];
        findings.extend(home(std::env::var_os("HOME")));
        findings.extend(tools(&config));
        findings.extend(sandboxes(config.shell.sandbox));
        findings.extend(private_home(&config, data_path));
        findings.push(model);
        findings.extend(backends());
        findings.extend(configured_backends(&config));
        findings.extend(mcp_servers(&config, data_path).await);
        match data {
            Ok(data) => {
                findings.push(directory(&data));
                findings.extend(over_limit(&data, &config).await);
                findings.push(running(&data).await);
            }
            Err(error) => {
                findings.push(Finding::bad("data", format!("{error:#}")));
            }
        }
        self.show(&findings)?;
        Ok(
            if findings.iter().any(|it| it.status == FindingStatus::Bad) {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            },
        )
    }

    fn show(&self, findings: &[Finding]) -> io::Result<()> {
        let style = Style::for_stdout();
        let mut out = io::stdout().lock();
        // Output that is not a terminal is not wrapped, so that scripts can parse it by line.
        let width = if io::stdout().is_terminal() {
            columns().saturating_sub(17)
        } else {
            usize::MAX
        };
        for finding in findings {
            let (word, colour, unicode, plain) = match finding.status {
                FindingStatus::Good => ("good", Colour::Good, "✓", "+"),
                FindingStatus::Lacking => ("lacking", Colour::Warning, "–", "-"),
                FindingStatus::Bad => ("bad", Colour::Bad, "✗", "x"),
            };
            if self.json {
                let line = json!({
                    "about": finding.about, "status": word,
                    "text": finding.text, "advice": finding.advice,
                });
                write_json(&mut out, &line)?;
                continue;
            }
            let mark = if style.has_unicode { unicode } else { plain };
            let mark = style.paint(colour, mark);
            let (about, text) = (finding.about, one_line(&finding.text));
            let mut about = Some(about);
            let mut write_row = |mark: &str, row: &str| {
                let about = about.take().unwrap_or_default();
                writeln!(out, "{mark} {about:<14} {row}")
            };
            for (index, row) in wrap_words(&text, width).iter().enumerate() {
                write_row(if index == 0 { &mark } else { " " }, row)?;
            }
            for row in finding
                .advice
                .iter()
                .flat_map(|text| wrap_words(text, width))
            {
                write_row(" ", &style.paint(Colour::Dim, &row))?;
            }
        }
        Ok(())
    }
}

fn version() -> Finding {
    let text = format!(
        "windlass {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    Finding::good("version", text)
}

fn no_configuration() -> Finding {
    Finding::good("configuration", "none; the defaults apply")
}

/// Reports an unusable `HOME`: data, configuration and logins are located below it.
fn home(set: Option<OsString>) -> Option<Finding> {
    let set = set.filter(|home| !home.is_empty()).map(PathBuf::from);
    let text = match &set {
        None => "HOME is not set".to_owned(),
        Some(home) if home.is_dir() && home.is_absolute() => return None,
        Some(home) => {
            let why = match (home.is_absolute(), home.exists()) {
                (false, _) => "which does not begin with `/`, so it is not used",
                (true, true) => "which is not a directory",
                (true, false) => "which does not exist",
            };
            format!("HOME is {}, {why}", printable(home))
        }
    };
    let advice = "set HOME to your home directory, or set the paths with --data or WINDLASS_DATA, and --config";
    Some(Finding::lacking("home", text).advise(advice))
}

fn configuration(named: Option<&Path>, data: &Path) -> (Config, Finding) {
    match read(named, data) {
        Ok((config, files)) => {
            let finding = if files.is_empty() {
                no_configuration()
            } else {
                let text = format!("read from {}", files.join(", then "));
                Finding::good("configuration", text)
            };
            (config, finding)
        }
        Err(error) => {
            let finding = Finding::bad("configuration", format!("{error:#}"))
                .advise("fix the file; docs/configuration.md describes its keys");
            (Config::default(), finding)
        }
    }
}

/// Reports settings that a daemon would reject. Model errors are included only if they were not reported before.
fn rejected(config: &Config, data: &Path, is_model_reported: bool) -> Option<Finding> {
    let wanted = set_variable("WINDLASS_MODEL");
    let check = |workspace: PathBuf| {
        let check = ConfigCheck {
            config,
            data,
            workspace: &workspace,
            model: wanted.as_deref(),
            has_agents: true,
        };
        if is_model_reported {
            check.all_but_models()
        } else {
            check.all()
        }
    };
    let error = or_current(None).and_then(check).err()?;
    let text = format!("`run` and `serve` reject it: {}", error_text(&error));
    let advice = "fix it; `windlass config show` lists each value with its file";
    Some(Finding::bad("configuration", text).advise(advice))
}

/// Reads the effective configuration and returns it with the names of its files.
fn read(named: Option<&Path>, data: &Path) -> anyhow::Result<(Config, Vec<String>)> {
    let layers = config::layers(named, data)?;
    let files = layers.origins().filter_map(|origin| match origin {
        Origin::File(path) => Some(printable(path)),
        _ => None,
    });
    Ok((layers.config()?, files.collect()))
}

/// Reports unknown tool names in the configuration.
fn tools(config: &Config) -> impl Iterator<Item = Finding> {
    let warning = unknown_tools::warnings(config).into_iter();
    warning.map(|warning| {
        Finding::lacking("tools", warning).advise(
            "correct the name; a rule for a tool of a client or of another machine does no harm",
        )
    })
}

fn sandboxes(configured: config::Sandbox) -> Vec<Finding> {
    let bubblewrap = Confinement::Bubblewrap.works_here();
    let landlock = Confinement::Landlock.works_here();
    let way = |about, works: bool, advice: &str| {
        if works {
            Finding::good(about, "confines commands")
        } else {
            Finding::lacking(about, "does not work here").advise(advice)
        }
    };
    let mut ways = vec![
        way(
            "bubblewrap",
            bubblewrap,
            "install it (apt install bubblewrap), and allow user namespaces",
        ),
        way(
            "landlock",
            landlock,
            "it needs Linux 5.13 with Landlock enabled",
        ),
    ];
    let selected = sandbox::selected(&sandbox::ways(configured));
    if let Some(gaps) = selected
        .map(Confinement::gaps)
        .filter(|gaps| !gaps.is_empty())
    {
        let text = format!("commands can {}", gaps.join("; "));
        let advice =
            "install bubblewrap (apt install bubblewrap), which prevents this: docs/security.md";
        ways.push(Finding::lacking("sandbox", text).advise(advice));
    }
    if !bubblewrap && !landlock {
        ways.push(
            Finding::bad("sandbox", "commands are refused, because no sandbox works")
                .advise("get one of the two above to work"),
        );
    }
    ways
}

/// Files and directories of a home that commands often need and that usually contain no secrets.
const OFTEN_OPENED: [&str; 6] = [
    ".gitconfig",
    ".cargo/registry",
    ".cache/pip",
    ".m2/repository",
    ".npm",
    "go/pkg/mod",
];

/// Reports which parts of the user's home are visible to commands.
fn private_home(config: &Config, data: &Path) -> Option<Finding> {
    let home = sandbox::home(&config.shell, data).ok()??;
    let opened: Vec<_> = home.opened().map(|(path, _)| printable(path)).collect();
    let text = if opened.is_empty() {
        format!("commands cannot see {}", printable(home.path()))
    } else {
        format!(
            "in {}, commands see only {}",
            printable(home.path()),
            opened.join(", ")
        )
    };
    let is_closed = |name: &&str| {
        let path = home.path().join(name);
        path.exists() && home.opened().all(|(opened, _)| !path.starts_with(opened))
    };
    let closed = OFTEN_OPENED.iter().copied().filter(|name| is_closed(name));
    let closed: Vec<_> = closed.map(|name| format!("\"~/{name}\"")).collect();
    let finding = Finding::good("private home", text);
    Some(if closed.is_empty() {
        finding
    } else {
        finding.advise(format!(
            "to make files of git and package managers readable, set shell.home_paths = [{}]",
            closed.join(", ")
        ))
    })
}

fn selected_model(config: &Config) -> Finding {
    match model::choose(set_variable("WINDLASS_MODEL").as_deref(), config, set_variable) {
        Ok(Choice::Real(model)) => {
            let provider = model::provider_name(model.provider_type);
            let text = format!("{} of {provider}", model.model);
            Finding::good("model", text)
        }
        Ok(Choice::Simulator) => Finding::good("model", "the simulator"),
        Ok(Choice::Demonstration) => {
            Finding::lacking("model", "none; the demonstration responds").advise(
                "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or configure your own server: docs/configuration.md",
            )
        }
        Err(error) => Finding::bad("model", format!("{error:#}"))
            .advise("select another with --model, or set its API key"),
    }
}

/// Looks for the programs of external agents; only `windlass backends check` starts them.
fn backends() -> Vec<Finding> {
    let agents = BUILT_IN_AGENTS.iter();
    let (installed, missing): (Vec<_>, Vec<_>) =
        agents.partition(|agent| is_installed(Path::new(agent.program)));
    let names = |which: &[&BuiltInAgent]| {
        let names: Vec<_> = which.iter().map(|agent| agent.kind.name()).collect();
        names.join(", ")
    };
    let mut findings = Vec::new();
    if !installed.is_empty() {
        findings.push(
            Finding::good("agents", names(&installed))
                .advise("`windlass backends check` shows whether they respond"),
        );
    }
    if !missing.is_empty() {
        let text = format!("not installed: {}", names(&missing));
        findings.push(Finding::lacking("agents", text));
    }
    findings
}

/// Reports configured agents whose program is missing.
fn configured_backends(config: &Config) -> impl Iterator<Item = Finding> {
    let missing = config.backends.iter().filter_map(|(name, entry)| {
        let command = entry.command.as_ref().filter(|it| !is_installed(it))?;
        Some((name, command))
    });
    missing.map(|(name, command)| {
        let text = format!(
            "{name} cannot start: there is no program {}",
            printable(command)
        );
        let advice = format!("install it, or change backends.{name}.command");
        Finding::lacking("agents", text).advise(advice)
    })
}

/// Starts the configured MCP servers, all at once, and reports each.
async fn mcp_servers(config: &Config, data: &Path) -> Vec<Finding> {
    if config.mcp_servers.is_empty() {
        return Vec::new();
    }
    let found = match tokio::time::timeout(MCP_START_TIMEOUT, offered(config, data)).await {
        Ok(Ok(found)) => found,
        // The reason is in the finding about the configuration.
        Ok(Err(_)) => return Vec::new(),
        Err(_) => {
            let seconds = MCP_START_TIMEOUT.as_secs();
            let text = format!("not all of them responded within {seconds} s");
            return vec![Finding::lacking("mcp server", text)];
        }
    };
    let server = |name: &String| {
        let mut failures = found.failures.iter().filter(|it| it.server == *name);
        if let Some(failure) = failures.next() {
            let text = format!("{name}: {}", failure.reason);
            let advice = "its tools are missing in every turn; fix its entry, or remove it";
            return Finding::lacking("mcp server", text).advise(advice);
        }
        let tools = found.tools.iter().filter(|it| it.server == *name).count();
        let text = match tools {
            1 => format!("{name}: 1 tool"),
            tools => format!("{name}: {tools} tools"),
        };
        Finding::good("mcp server", text)
    };
    config.mcp_servers.keys().map(server).collect()
}

async fn offered(config: &Config, data: &Path) -> Result<DiscoveredTools> {
    let workspace = or_current(None)?;
    let (environments, mut shell) = probe::environments(config, data, &workspace)?;
    let secrets = named_secrets::load(config, set_variable)?;
    let names = secrets.variables().map(|(name, _)| name.to_owned());
    shell.secret_names = names.collect();
    let client = mcp::client(config, &environments, &shell, &secrets, set_variable)?;
    let Some(client) = client else {
        return Ok(DiscoveredTools::default());
    };
    let scope = McpScope {
        session_id: SessionId::new(),
        owner: None,
        environment: None,
        network_access: None,
    };
    let found = client.own_tools(None, &scope, McpReach::All).await;
    client.close().await;
    Ok(found)
}

fn directory(data: &Path) -> Finding {
    let shown = printable(data);
    let existing = data.ancestors().find(|path| path.exists());
    let width = existing.and_then(|path| rustix::fs::statvfs(path).ok());
    let width = width.map(|width| width.f_bavail * width.f_frsize);
    if let Err(error) = data::check(data) {
        return Finding::bad("data", format!("{error:#}"));
    }
    if let Some(file) = existing.filter(|path| !path.is_dir()) {
        let text = format!(
            "{shown} cannot be created: {} is not a directory",
            printable(file)
        );
        return Finding::bad("data", text).advise("select another with --data or WINDLASS_DATA");
    }
    let is_writable =
        existing.is_some_and(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok());
    if !is_writable {
        return Finding::bad("data", format!("{shown} cannot be written"))
            .advise("select another with --data or WINDLASS_DATA");
    }
    let size = std::fs::metadata(data.join("windlass.db")).map_or(0, |it| it.size());
    let width = width.unwrap_or_default();
    let text = format!("{shown}: {} MB, {} MB left", size >> 20, width >> 20);
    if width < RECOMMENDED_FREE {
        Finding::lacking("data", text)
            .advise("free some space: turns stop when nothing can be recorded")
    } else {
        Finding::good("data", text)
    }
}

/// Reports a `retention.max_bytes` that retention cannot meet.
async fn over_limit(data: &Path, config: &Config) -> Option<Finding> {
    let limit = config.retention.max_bytes?;
    if !data::has_store(data).unwrap_or_default() {
        return None;
    }
    let options = SqliteOptions::new(data).with_expendable_records(EXPENDABLE_RECORDS);
    let store = SqliteStore::open_read_only(options).await.ok()?;
    let over = store.over_limit(limit).await.ok()??;
    let text = format!(
        "rows that retention never removes take {} bytes, but retention.max_bytes is {limit}; therefore no history is removed",
        over.unremovable
    );
    let advice = "raise retention.max_bytes, or delete open tasks, automations, files and threads";
    Some(Finding::lacking("retention", text).advise(advice))
}

async fn running(data: &Path) -> Finding {
    let socket = daemon::own_socket(data);
    let is_running = match socket {
        Some(socket) => UnixStream::connect(socket).await.is_ok(),
        None => false,
    };
    if is_running {
        Finding::good("daemon", "runs on this data")
    } else {
        Finding::good(
            "daemon",
            "not running; commands start one in their own process (`windlass serve` starts a permanent one)",
        )
    }
}
