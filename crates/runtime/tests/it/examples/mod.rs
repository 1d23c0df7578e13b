//! Runs every example and compares its output with the recorded file. `WINDLASS_BLESS=1` records it again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use windlass_testkit::{Answer, FakeServer, Wire};

macro_rules! examples {
    ($($(#[$condition:meta])* $name:ident,)*) => {
        $(
            $(#[$condition])*
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
        /// The examples that are checked, whatever features are on.
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

examples! {
    #[cfg(feature = "sqlite")]
    after_a_crash,
    approval,
    cancel_and_resume,
    client_side_tool,
    closure_tool,
    hello,
    #[cfg(feature = "sqlite")]
    looking,
    #[cfg(feature = "sqlite")]
    pending_approvals,
    #[cfg(feature = "real-disk")]
    real_disk,
    real_model,
    streaming,
    #[cfg(feature = "typed-tools")]
    typed_output,
}

#[test]
fn every_example_is_checked() {
    let files = std::fs::read_dir(package().join("examples")).unwrap();
    let mut found: Vec<_> = files
        .map(|file| file.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, NAMES);
}

fn check(name: &str) {
    let Output {
        status,
        stdout,
        stderr,
    } = run(name);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{name} failed ({status}):\n{stderr}");
    let printed = String::from_utf8(stdout).unwrap();
    let path = package().join(format!("tests/it/examples/{name}.txt"));
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        printed,
        expected,
        "{name} prints something else than {}; if it should, run again with WINDLASS_BLESS=1",
        path.display()
    );
}

/// The program about a real model cannot run among those of the page, so it is this example.
#[test]
fn the_page_about_embedding_shows_the_example_of_a_real_model() {
    let read = |path: &str| std::fs::read_to_string(package().join(path)).unwrap();
    let source = read("examples/real_model.rs");
    let is_header = |line: &&str| line.starts_with("//!") || line.starts_with("#!");
    let program: Vec<_> = source
        .lines()
        .skip_while(|line| line.is_empty() || is_header(line))
        .collect();
    let block = format!("```rust,no_run\n{}\n```", program.join("\n"));
    let page = read("../../docs/embedding.md");
    assert!(page.contains(&block), "docs/embedding.md lacks:\n{block}");
    // Every other program on the page runs with the documentation's tests.
    assert_eq!(page.matches("no_run").count(), 1);
}

#[test]
fn examples_named_by_the_embedding_page_exist() {
    let page = std::fs::read_to_string(package().join("../../docs/embedding.md")).unwrap();
    for name in [
        "after_a_crash",
        "looking",
        "pending_approvals",
        "real_model",
    ] {
        assert!(NAMES.contains(&name), "{name}");
        assert!(
            page.contains(name),
            "docs/embedding.md does not name {name}"
        );
    }
}

/// Crates that programs on pages may use. A program that uses one of another name does not compile in the documentation's tests.
const CRATES: &[&str] = &[
    "async_trait",
    "bytes",
    "chrono",
    "futures",
    "jiff",
    "reqwest",
    "schemars",
    "serde",
    "serde_json",
    "tempfile",
    "tokio",
    "url",
    "uuid",
    "windlass_core",
    "windlass_models",
    "windlass_runtime",
    "windlass_store",
    "windlass_tools",
    "windlass_turn",
];

/// A page names every crate that its programs need.
#[test]
fn every_page_names_the_crates_that_its_programs_use() {
    let root = package().join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|file| file.unwrap().path());
    let pages = docs.chain([root.join("README.md")]);
    for path in pages.filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let page = std::fs::read_to_string(&path).unwrap();
        let (mut programs, mut named) = (String::new(), Vec::new());
        for block in page.split("\n```").skip(1).step_by(2) {
            let (language, text) = block.split_once('\n').unwrap_or((block, ""));
            assert!(!language.contains("ignore"), "{}: {text}", path.display());
            if language.starts_with("rust") {
                programs.push_str(text);
            } else if language == "toml" && text.contains("[dependencies]") {
                let lines = text.lines().filter_map(|line| line.split_once('='));
                named.extend(lines.map(|(name, _)| name.trim().replace('-', "_")));
            }
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        for name in CRATES {
            let uses = programs
                .match_indices(&format!("{name}::"))
                .any(|(at, _)| !programs[..at].ends_with(|c: char| is_part(c) || c == ':'));
            let is_named = named.iter().any(|dependency| dependency == name);
            assert!(
                !uses || is_named,
                "{} uses {name} and does not name it",
                path.display()
            );
        }
    }
}

/// A provider of the test's own answers the example with a call and then with text.
#[tokio::test]
async fn real_model_speaks_to_a_provider() {
    let mut server = FakeServer::start().await.unwrap();
    let mut example = tokio::process::Command::from(command("real_model"));
    let running = example
        .args(["anthropic/claude-haiku-4-5", &server.url()])
        .env("MODEL_KEY", "test-key")
        .kill_on_drop(true)
        .output();
    let provider = async {
        let call = Answer::default().with_call("c1", "weather", &["{\"city\": \"Bergen\"}"]);
        let asked = server.next().await;
        assert_eq!(asked.request.header("x-api-key"), Some("test-key"));
        assert_eq!(asked.request.json()["model"], "claude-haiku-4-5");
        asked.stream(&Wire::Anthropic.events(&call)).await.unwrap();
        let exchange = server.next().await;
        let body = exchange.request.json().to_string();
        assert!(body.contains("rain in "), "{body}");
        let text = Answer::text(&["Pack an ", "umbrella."]);
        exchange
            .stream(&Wire::Anthropic.events(&text))
            .await
            .unwrap();
    };
    let (ended, ()) = tokio::join!(running, provider);
    let Output {
        status,
        stdout,
        stderr,
    } = ended.unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let printed = String::from_utf8(stdout).unwrap();
    assert_eq!(printed, "Pack an umbrella.\n(1 calls of tools)\n");
}

/// Finds the program that cargo built together with this one; where there is none, lets cargo build it.
fn run(name: &str) -> Output {
    // The examples must not use the developer's own key.
    command(name).env_remove("MODEL_KEY").output().unwrap()
}

fn command(name: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let profile = this.parent().and_then(Path::parent).unwrap();
    let program = profile
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Command::new(program);
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--all-features", "--example", name, "--"])
        .current_dir(package());
    cargo
}

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
