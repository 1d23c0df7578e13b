//! Attempts to outlive a command or to escape its sandbox, each made once before the test: fork bombs, the port of a killed host, shared memory and
//! the user's home.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::capabilities::Capability;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;
use windlass_testkit::skipped;
use windlass_tools::{
    Confinement, Environment, Environments, Network, Policy, Records, ShellCapability,
    ShellSettings, UserHome, end_leftovers,
};

use super::text;

/// The argument that starts this program as a host to be killed.
pub const HOST: &str = "hostile-host";
/// Time limit for all processes to be gone.
const SOON: Duration = Duration::from_secs(1);
/// Time limit for preparations on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A chain of forks, each in a session of its own with a dead parent. Every link holds a lock on the file `held`, so the lock is free
/// when none is left. It ends after two minutes.
const CHAIN: &str = r#"
perl -MPOSIX -e '
  open(HELD, ">", "held") and flock(HELD, 2) or die; open(UP, ">", "up") or die;
  my $end = time + 120;
  while (time < $end) { my $pid = fork; POSIX::_exit(0) if $pid; POSIX::setsid() if defined $pid; }
' < /dev/null > /dev/null 2>&1 &
until [ -e up ]; do :; done
"#;

/// A program that drops all its identifying marks and takes a port as soon as it is free.
const TAKES_PORT: &str = r#"
env -i setsid -f /usr/bin/perl -MIO::Socket::INET -e '
  my $end = time + 120;
  while (time < $end) { my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => PORT) and sleep 120; }
' < /dev/null > /dev/null 2>&1
"#;

/// A root for commands, with a home next to it.
struct EscapeSandbox {
    directory: TempDir,
    confinement: Confinement,
}

/// Makes every attempt; the error names the first one that succeeds. Attempts that this machine cannot confine are reported as skipped.
pub async fn attempt_all(confinement: Option<Confinement>) -> Result<(), String> {
    let methods = [Confinement::Bubblewrap, Confinement::Landlock];
    let best = methods
        .into_iter()
        .find(|confinement| confinement.works_here());
    let Some(confinement) = confinement
        .or(best)
        .filter(|confinement| confinement.works_here())
    else {
        skipped(
            "escapes",
            "the requested sandbox does not work on this machine",
        );
        return Ok(());
    };
    if !Path::new("/usr/bin/perl").exists() {
        skipped("escapes", "there is no perl");
        return Ok(());
    }
    if confinement.ends_every_process() {
        chain_after_its_command(confinement).await?;
        chain_after_its_time(confinement).await?;
        chain_after_an_interrupt(confinement).await?;
        chain_after_a_killed_host(confinement)?;
    } else {
        let what = format!("a chain of forks in {}", confinement.name());
        skipped(&what, "this machine cannot end one");
    }
    shared_memory(confinement).await?;
    user_home(confinement).await
}

async fn chain_after_its_command(confinement: Confinement) -> Result<(), String> {
    let sandbox = EscapeSandbox::new(confinement)?;
    sandbox.run(CHAIN, PATIENCE).await?;
    sandbox.check_released("a chain of forks outlives its command")
}

async fn chain_after_its_time(confinement: Confinement) -> Result<(), String> {
    let sandbox = EscapeSandbox::new(confinement)?;
    let script = format!("{CHAIN} sleep 60");
    let ran = sandbox.run(&script, Duration::from_secs(2)).await;
    if ran.is_ok() {
        return Err("a command outlives its time".to_owned());
    }
    sandbox.check_released("a chain of forks outlives the time of its command")
}

async fn chain_after_an_interrupt(confinement: Confinement) -> Result<(), String> {
    let sandbox = EscapeSandbox::new(confinement)?;
    let script = format!("{CHAIN} sleep 60");
    tokio::select! {
        ran = sandbox.run(&script, PATIENCE) => {
            return Err(format!("a command ended too early: {ran:?}"));
        }
        () = sandbox.has_chain() => {}
    }
    sandbox.check_released("a chain of forks outlives an interrupt")
}

/// Kills a host, whose port a command wants, and does what the next one does before it listens.
fn chain_after_a_killed_host(confinement: Confinement) -> Result<(), String> {
    let sandbox = EscapeSandbox::new(confinement)?;
    let mut host = KilledHost::start(&sandbox)?;
    host.kill()?;
    let records = Records::open(sandbox.directory.path().join("records")).map_err(text)?;
    records.end_leftovers().map_err(text)?;
    end_leftovers(&sandbox.owner());
    sandbox.check_released("a chain of forks outlives a killed host and the next start")?;
    let is_free = || TcpListener::bind((Ipv4Addr::LOCALHOST, host.port)).is_ok();
    if becomes_true(is_free) {
        Ok(())
    } else {
        Err("a command has the port of a killed host after the next start".to_owned())
    }
}

async fn shared_memory(confinement: Confinement) -> Result<(), String> {
    let perl = |script: &str| {
        let ran = Command::new("perl").args(["-e", script]).output();
        ran.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned())
            .map_err(text)
    };
    let id = perl("my $id = shmget(0, 4096, 0600); shmwrite($id, 's3cret', 0, 6) and print $id")?;
    if id.is_empty() {
        skipped("shared memory", "the kernel has none");
        return Ok(());
    }
    let script = format!(
        "perl -e 'shmread({id}, my $text, 0, 6) and print $text; shmwrite({id}, \"broken\", 0, 6); shmctl({id}, 0, 0)'"
    );
    let ran = EscapeSandbox::new(confinement)?
        .run(&script, PATIENCE)
        .await;
    let left = perl(&format!(
        "shmread({id}, my $text, 0, 6); print $text; shmctl({id}, 0, 0)"
    ))?;
    if ran?.to_string().contains("s3cret") || left != "s3cret" {
        Err(format!(
            "a command reaches shared memory of another program, now {left:?}"
        ))
    } else {
        Ok(())
    }
}

async fn user_home(confinement: Confinement) -> Result<(), String> {
    let sandbox = EscapeSandbox::new(confinement)?;
    for name in [".pgpass", ".vault-token", ".config/unheard-of"] {
        let file = sandbox.home().join(name);
        fs::create_dir_all(file.parent().unwrap_or(&file)).map_err(text)?;
        fs::write(file, "s3cret").map_err(text)?;
    }
    let home = sandbox.home();
    let script = format!(
        "cat {0}/.pgpass {0}/.vault-token {0}/.config/* ~/.pgpass; grep -r s3cret {0} ~; echo x > ~/written; :",
        home.display()
    );
    let output = sandbox.run(&script, PATIENCE).await?;
    if output.to_string().contains("s3cret") || home.join("written").exists() {
        Err(format!("a command reaches the home of the user: {output}"))
    } else {
        Ok(())
    }
}

impl EscapeSandbox {
    fn new(confinement: Confinement) -> Result<Self, String> {
        // Not below `/tmp`, because a sandbox may have its own.
        let directory = tempfile::tempdir_in("/var/tmp").map_err(text)?;
        for name in ["root", "home"] {
            fs::create_dir(directory.path().join(name)).map_err(text)?;
        }
        Ok(Self {
            directory,
            confinement,
        })
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn owner(&self) -> String {
        owner_of(self.directory.path())
    }

    async fn run(&self, script: &str, time: Duration) -> Result<Value, String> {
        run_in(self.directory.path(), self.confinement, script, time).await
    }

    async fn has_chain(&self) {
        while !self.root().join("up").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn check_released(&self, otherwise: &str) -> Result<(), String> {
        let held = File::open(self.root().join("held")).map_err(text)?;
        if becomes_true(|| held.try_lock().is_ok()) {
            Ok(())
        } else {
            Err(format!("{otherwise} in {}", self.confinement.name()))
        }
    }
}

fn owner_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    format!("windlass-escapes-{}", name.to_string_lossy())
}

fn becomes_true(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + SOON;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Runs a command as a model would; the error is the text that the model reads.
async fn run_in(
    directory: &Path,
    confinement: Confinement,
    script: &str,
    time: Duration,
) -> Result<Value, String> {
    let policy = Policy {
        network: Network::Inherit,
        ..Policy::default()
    };
    let root = Environment::new("local", directory.join("root"), policy).map_err(text)?;
    let settings = ShellSettings {
        owner: Some(owner_of(directory)),
        records: Some(Records::open(directory.join("records")).map_err(text)?),
        ways: vec![confinement],
        home: UserHome::new(&directory.join("home")),
        timeout: time,
        ..ShellSettings::default()
    };
    let shell = ShellCapability::new(Environments::with_default(root), settings);
    let tools = shell.tools_with_config(&json!({ "approval": "never" }));
    let shell = tools.into_iter().find(|tool| tool.name() == "shell");
    let shell = shell.ok_or("there is no shell")?;
    let context = ToolContext::new(SessionId::new());
    let arguments = json!({ "command": script });
    match shell.execute_with_context(arguments, &context).await {
        ToolExecutionResult::Success(value) => Ok(value),
        other => Err(format!("{other:?}")),
    }
}

/// A process that listens on a port and runs a chain and a program that wants the port.
struct KilledHost {
    process: Child,
    port: u16,
}

impl KilledHost {
    fn start(sandbox: &EscapeSandbox) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(text)?;
        let process = Command::new(program)
            .arg(HOST)
            .arg(sandbox.directory.path())
            .arg(sandbox.confinement.name())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut host = Self {
            process: process.map_err(text)?,
            port: 0,
        };
        let deadline = Instant::now() + PATIENCE;
        while !sandbox.root().join("up").exists() {
            if Instant::now() > deadline {
                return Err("the host does not start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let port = fs::read_to_string(sandbox.directory.path().join("port")).map_err(text)?;
        host.port = port.parse().map_err(text)?;
        Ok(host)
    }

    fn kill(&mut self) -> Result<(), String> {
        self.process.kill().map_err(text)?;
        self.process.wait().map(drop).map_err(text)
    }
}

impl Drop for KilledHost {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Runs as the killed host; its arguments are a directory and the name of a sandbox.
pub async fn run_host(args: &[String]) -> Result<(), String> {
    let [directory, confinement] = args else {
        return Err(format!("{HOST} takes a directory and a sandbox"));
    };
    let directory = Path::new(directory);
    let methods = [Confinement::Bubblewrap, Confinement::Landlock];
    let confinement = methods
        .into_iter()
        .find(|known| known.name() == confinement);
    let confinement = confinement.ok_or("there is no such sandbox")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port().to_string();
    fs::write(directory.join("port"), &port).map_err(text)?;
    let script = format!("{}{CHAIN} sleep 60", TAKES_PORT.replace("PORT", &port));
    run_in(directory, confinement, &script, PATIENCE * 2)
        .await
        .map(drop)
}
