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

use crate::backends::{KNOWN, Known, is_here};
use crate::cli::{or_current, printable, words};
use crate::config::{self, Config, Origin};
use crate::daemon::check::Check;
use crate::daemon::{mcp, named_secrets, probe};
use crate::inert_json::json_line;
use crate::model::{self, Choice};
use crate::terminal::{Colour, Style, columns, folded};
use crate::{daemon, data, sandbox, unknown_tools};

/// Recommended free space for the data, in bytes.
const ROOM: u64 = 1024 * 1024 * 1024;

/// Time limit for all MCP servers together to start and list their tools.
const SERVERS_START: Duration = Duration::from_secs(30);

/// Looks at this machine: sandbox, models, data, daemon, agents of others; and says what to do.
#[derive(Args)]
pub(crate) struct Doctor {
    /// The data directory [default: the user's own].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes a line of JSON for each finding.
    #[arg(long)]
    json: bool,
}

/// The status of a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Good,
    /// A feature is degraded or not set up yet.
    Lacking,
    Bad,
}

struct Finding {
    about: &'static str,
    standing: Standing,
    text: String,
    /// How to fix it.
    advice: Option<String>,
}

impl Finding {
    fn new(about: &'static str, standing: Standing, text: impl Into<String>) -> Self {
        Self {
            about,
            standing,
            text: text.into(),
            advice: None,
        }
    }

    fn do_this(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl Doctor {
    pub(crate) async fn run(self, named_config: Option<&Path>) -> Result<ExitCode> {
        let data = data::directory(self.data.clone());
        // Without a data directory, there are no trusted files, so only a file named on the command line is read.
        let place = data.as_deref().unwrap_or(Path::new(""));
        let (config, mut configuration) = if data.is_ok() || named_config.is_some() {
            configuration(named_config, place)
        } else {
            (Config::default(), no_configuration())
        };
        let model = model_that_answers(&config);
        if configuration.standing == Standing::Good {
            let refused = refused(&config, place, model.standing == Standing::Bad);
            configuration = refused.unwrap_or(configuration);
        }
        let mut findings = vec![version(), configuration];
        findings.extend(home(std::env::var_os("HOME")));
        findings.extend(tools(&config));
        findings.extend(sandboxes(config.shell.sandbox));
        findings.extend(private_home(&config, place));
        findings.push(model);
        findings.extend(backends());
        findings.extend(configured_backends(&config));
        findings.extend(mcp_servers(&config, place).await);
        match data {
            Ok(data) => {
                findings.push(directory(&data));
                findings.extend(over_limit(&data, &config).await);
                findings.push(running(&data).await);
            }
            Err(error) => {
                findings.push(Finding::new("data", Standing::Bad, format!("{error:#}")));
            }
        }
        self.show(&findings)?;
        Ok(if findings.iter().any(|it| it.standing == Standing::Bad) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn show(&self, findings: &[Finding]) -> io::Result<()> {
        let style = Style::of_stdout();
        let mut out = io::stdout().lock();
        // Output that is not a terminal is not wrapped, so that scripts can parse it by line.
        let room = if io::stdout().is_terminal() {
            columns().saturating_sub(17)
        } else {
            usize::MAX
        };
        for finding in findings {
            let (word, colour, unicode, plain) = match finding.standing {
                Standing::Good => ("good", Colour::Good, "✓", "+"),
                Standing::Lacking => ("lacking", Colour::Asked, "–", "-"),
                Standing::Bad => ("bad", Colour::Bad, "✗", "x"),
            };
            if self.json {
                let line = json!({
                    "about": finding.about, "standing": word,
                    "text": finding.text, "advice": finding.advice,
                });
                writeln!(out, "{}", json_line(&line)?)?;
                continue;
            }
            let mark = if style.has_unicode { unicode } else { plain };
            let mark = style.paint(colour, mark);
            let (about, text) = (finding.about, one_line(&finding.text));
            let mut about = Some(about);
            let mut put = |mark: &str, row: &str| {
                let about = about.take().unwrap_or_default();
                writeln!(out, "{mark} {about:<14} {row}")
            };
            for (place, row) in folded(&text, room).iter().enumerate() {
                put(if place == 0 { &mark } else { " " }, row)?;
            }
            for row in finding.advice.iter().flat_map(|text| folded(text, room)) {
                put(" ", &style.paint(Colour::Dim, &row))?;
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
    Finding::new("version", Standing::Good, text)
}

fn no_configuration() -> Finding {
    let text = "none, so the defaults count";
    Finding::new("configuration", Standing::Good, text)
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
                (true, true) => "which is no directory",
                (true, false) => "which is not there",
            };
            format!("HOME is {}, {why}", printable(home))
        }
    };
    let advice = "set HOME to your home directory, or name the places yourself: --data or WINDLASS_DATA, and --config";
    Some(Finding::new("home", Standing::Lacking, text).do_this(advice))
}

fn configuration(named: Option<&Path>, data: &Path) -> (Config, Finding) {
    match read(named, data) {
        Ok((config, files)) => {
            let finding = if files.is_empty() {
                no_configuration()
            } else {
                let text = format!("{} is read", files.join(", then "));
                Finding::new("configuration", Standing::Good, text)
            };
            (config, finding)
        }
        Err(error) => {
            let finding = Finding::new("configuration", Standing::Bad, format!("{error:#}"))
                .do_this("mend the file; docs/configuration.md tells what it may say");
            (Config::default(), finding)
        }
    }
}

/// Reports settings that a daemon would reject. Model errors are included only if they were not reported before.
fn refused(config: &Config, data: &Path, is_model_told: bool) -> Option<Finding> {
    let wanted = wanted_model();
    let check = |workspace: PathBuf| {
        let check = Check {
            config,
            data,
            workspace: &workspace,
            model: wanted.as_deref(),
            has_agents: true,
        };
        if is_model_told {
            check.apart_from_models()
        } else {
            check.all()
        }
    };
    let error = or_current(None).and_then(check).err()?;
    let text = format!("`run` and `serve` refuse it: {}", words(&error));
    let advice = "mend it; `windlass config show` says which file says what";
    Some(Finding::new("configuration", Standing::Bad, text).do_this(advice))
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
    let told = unknown_tools::told(config).into_iter();
    told.map(|told| {
        Finding::new("tools", Standing::Lacking, told).do_this(
            "mend the name; a rule for a tool of a client or of another machine does no harm",
        )
    })
}

fn sandboxes(configured: config::Sandbox) -> Vec<Finding> {
    let bubblewrap = Confinement::Bubblewrap.works_here();
    let landlock = Confinement::Landlock.works_here();
    let way = |about, works: bool, advice: &str| {
        if works {
            Finding::new(about, Standing::Good, "confines commands")
        } else {
            Finding::new(about, Standing::Lacking, "does not work here").do_this(advice)
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
            "it needs Linux 5.13 with landlock switched on",
        ),
    ];
    let taken = sandbox::taken(&sandbox::ways(configured));
    if let Some(gaps) = taken.map(Confinement::gaps).filter(|gaps| !gaps.is_empty()) {
        let text = format!("commands can {}", gaps.join("; "));
        let advice = "install bubblewrap (apt install bubblewrap), which keeps them from it: docs/security.md";
        ways.push(Finding::new("sandbox", Standing::Lacking, text).do_this(advice));
    }
    if !bubblewrap && !landlock {
        ways.push(
            Finding::new(
                "sandbox",
                Standing::Bad,
                "commands are refused, because nothing confines them",
            )
            .do_this("get one of the two above to work"),
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
        format!("commands see nothing of {}", printable(home.path()))
    } else {
        format!(
            "commands see of {} only {}",
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
    let finding = Finding::new("private home", Standing::Good, text);
    Some(if closed.is_empty() {
        finding
    } else {
        finding.do_this(format!(
        "to let them read what git, package managers and the like keep there: shell.home_paths = [{}]",
        closed.join(", ")
    ))
    })
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    value.filter(|value| !value.trim().is_empty())
}

fn wanted_model() -> Option<String> {
    variable("WINDLASS_MODEL")
}

fn model_that_answers(config: &Config) -> Finding {
    match model::choose(wanted_model().as_deref(), config, variable) {
        Ok(Choice::Real(model)) => {
            let provider = model::provider_name(model.provider_type);
            let text = format!("{} of {provider}", model.model);
            Finding::new("model", Standing::Good, text)
        }
        Ok(Choice::Simulator) => Finding::new("model", Standing::Good, "the simulator"),
        Ok(Choice::Demonstration) => {
            Finding::new("model", Standing::Lacking, "none, so the demonstration answers").do_this(
                "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a server of your own: docs/configuration.md",
            )
        }
        Err(error) => Finding::new("model", Standing::Bad, format!("{error:#}"))
            .do_this("name another with --model, or set its key"),
    }
}

/// Looks for the programs of external agents; only `windlass backends check` starts them.
fn backends() -> Vec<Finding> {
    let known = KNOWN.iter();
    let (here, gone): (Vec<_>, Vec<_>) = known.partition(|known| is_here(Path::new(known.program)));
    let names = |which: &[&Known]| {
        let names: Vec<_> = which.iter().map(|known| known.kind.name()).collect();
        names.join(", ")
    };
    let mut findings = Vec::new();
    if !here.is_empty() {
        findings.push(
            Finding::new("agents", Standing::Good, names(&here))
                .do_this("windlass backends check says whether they answer"),
        );
    }
    if !gone.is_empty() {
        let text = format!("not installed: {}", names(&gone));
        findings.push(Finding::new("agents", Standing::Lacking, text));
    }
    findings
}

/// Reports configured agents whose program is missing.
fn configured_backends(config: &Config) -> impl Iterator<Item = Finding> {
    let missing = config.backends.iter().filter_map(|(name, entry)| {
        let command = entry.command.as_ref().filter(|it| !is_here(it))?;
        Some((name, command))
    });
    missing.map(|(name, command)| {
        let text = format!(
            "{name} cannot start: there is no program {}",
            printable(command)
        );
        let advice = format!("install it, or change backends.{name}.command");
        Finding::new("agents", Standing::Lacking, text).do_this(advice)
    })
}

/// Starts the configured MCP servers, all at once, and reports each.
async fn mcp_servers(config: &Config, data: &Path) -> Vec<Finding> {
    if config.mcp_servers.is_empty() {
        return Vec::new();
    }
    let found = match tokio::time::timeout(SERVERS_START, offered(config, data)).await {
        Ok(Ok(found)) => found,
        // The reason is in the finding about the configuration.
        Ok(Err(_)) => return Vec::new(),
        Err(_) => {
            let seconds = SERVERS_START.as_secs();
            let text = format!("they did not all answer within {seconds} s");
            return vec![Finding::new("mcp server", Standing::Lacking, text)];
        }
    };
    let server = |name: &String| {
        let mut failures = found.failures.iter().filter(|it| it.server == *name);
        if let Some(failure) = failures.next() {
            let text = format!("{name}: {}", failure.reason);
            let advice = "its tools are missing in every turn; mend its entry, or remove it";
            return Finding::new("mcp server", Standing::Lacking, text).do_this(advice);
        }
        let tools = found.tools.iter().filter(|it| it.server == *name).count();
        let text = match tools {
            1 => format!("{name}: 1 tool"),
            tools => format!("{name}: {tools} tools"),
        };
        Finding::new("mcp server", Standing::Good, text)
    };
    config.mcp_servers.keys().map(server).collect()
}

async fn offered(config: &Config, data: &Path) -> Result<DiscoveredTools> {
    let workspace = or_current(None)?;
    let (environments, mut shell) = probe::environments(config, data, &workspace)?;
    let secrets = named_secrets::of(config, variable)?;
    let names = secrets.variables().map(|(name, _)| name.to_owned());
    shell.secret_names = names.collect();
    let client = mcp::client(config, &environments, &shell, &secrets, variable)?;
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
    let existing = data.ancestors().find(|place| place.exists());
    let room = existing.and_then(|place| rustix::fs::statvfs(place).ok());
    let room = room.map(|room| room.f_bavail * room.f_frsize);
    if let Err(error) = data::check(data) {
        return Finding::new("data", Standing::Bad, format!("{error:#}"));
    }
    if let Some(file) = existing.filter(|place| !place.is_dir()) {
        let text = format!(
            "{shown} cannot be made: {} is no directory",
            printable(file)
        );
        return Finding::new("data", Standing::Bad, text)
            .do_this("name another with --data or WINDLASS_DATA");
    }
    let is_writable = existing
        .is_some_and(|place| rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok());
    if !is_writable {
        return Finding::new("data", Standing::Bad, format!("{shown} cannot be written"))
            .do_this("name another with --data or WINDLASS_DATA");
    }
    let size = std::fs::metadata(data.join("windlass.db")).map_or(0, |it| it.size());
    let room = room.unwrap_or_default();
    let text = format!("{shown}: {} MB, {} MB left", size >> 20, room >> 20);
    if room < ROOM {
        Finding::new("data", Standing::Lacking, text)
            .do_this("make room: a turn stops when nothing can be recorded")
    } else {
        Finding::new("data", Standing::Good, text)
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
        "the rows that retention never removes have {} bytes, and retention.max_bytes is {limit}; no history is removed for them",
        over.unremovable
    );
    let advice = "raise retention.max_bytes, or remove open tasks, automations, files and threads";
    Some(Finding::new("retention", Standing::Lacking, text).do_this(advice))
}

async fn running(data: &Path) -> Finding {
    let socket = daemon::own_socket(data);
    let is_running = match socket {
        Some(socket) => UnixStream::connect(socket).await.is_ok(),
        None => false,
    };
    if is_running {
        Finding::new("daemon", Standing::Good, "runs on this data")
    } else {
        Finding::new(
            "daemon",
            Standing::Good,
            "none runs; commands work by themselves (windlass serve starts one)",
        )
    }
}
