//! `windlass run`, as users run it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use windlass_testkit::{After, Answer, FakeServer, Reply, Wire};

use crate::support::{Home, Relay, Sandbox, ScriptedModel, Signal, TOKEN};

/// A working directory and a data directory.
pub(crate) struct RunFixture {
    directory: tempfile::TempDir,
}

impl RunFixture {
    pub(crate) fn new() -> Self {
        // Not below `/tmp`: a sandbox has a private one.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(directory.path().join("here")).unwrap();
        Self { directory }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("here")
    }

    /// Returns a command for the binary with these environment variables and no others.
    pub(crate) fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(arguments)
            .env_clear()
            .env("WINDLASS_DATA", self.directory.path().join("data"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(variables.iter().copied())
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        self.command(arguments, variables).output().unwrap()
    }
}

/// Runs the binary once, in an empty directory.
pub(crate) fn windlass(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    RunFixture::new().run(arguments, variables)
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs the binary against a server that has its own runtime.
fn with_server(
    answer: impl Fn(&windlass_testkit::Request) -> Reply + Send + Sync + 'static,
    run: impl FnOnce(&str),
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(FakeServer::answering(answer)).unwrap();
    run(&server.url());
}

fn reply(status: u16, chunks: Vec<String>) -> Reply {
    Reply {
        status,
        headers: Vec::new(),
        chunks,
        after: After::End,
    }
}

#[test]
fn demonstration_works_without_a_key_and_identifies_itself_in_one_line() {
    let fixture = RunFixture::new();
    std::fs::write(
        fixture.workspace().join("README.md"),
        "# A load of crates\n",
    )
    .unwrap();
    let out = fixture.run(&["run", "What is here?"], &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert!(stdout.contains("# A load of crates"), "{stdout}");
    assert!(stdout.contains("What is here?"), "{stdout}");
    assert!(
        stderr
            .lines()
            .next()
            .unwrap()
            .contains("demonstration model")
    );
    for call in ["list", "read", "shell"] {
        assert!(stderr.contains(call), "{stderr}");
    }
    assert!(stderr.contains("no user can be asked"), "{stderr}");
    assert!(!stderr.contains('\x1b') && !stdout.contains('\x1b'));
    // A second run continues the same thread.
    let again = fixture.run(&["run", "--continue", "--json", "More?"], &[]);
    let lines = text(&again.stdout).lines();
    let events: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.last().unwrap()["event"], "result");
    let detail = fixture.run(&["runs", "list", "--json"], &[]);
    assert_eq!(text(&detail.stdout).lines().count(), 2);
}

#[test]
fn yes_runs_commands_in_the_sandbox_without_approval() {
    if Sandbox::all("yes_runs_commands_in_the_sandbox_without_approval").is_empty() {
        return;
    }
    let out = windlass(&["run", "What is here?", "--yes"], &[]);
    let stdout = text(&out.stdout);
    assert!(stdout.contains("The command ran (sandbox: "), "{stdout}");
}

#[test]
fn killed_run_resumes_with_continue() {
    if Sandbox::all("killed_run_resumes_with_continue").is_empty() {
        return;
    }
    let answer = |request: &windlass_testkit::Request| {
        let body = request.json().to_string();
        let answer = if body.contains("tool_result") {
            Answer::text(&["It resumed."])
        } else {
            let arguments = r#"{"command":"echo > begun; sleep 600"}"#;
            Answer::default().with_call("toolu_1", "shell", &[arguments])
        };
        reply(200, Wire::Anthropic.events(&answer))
    };
    with_server(answer, |url| {
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", url),
        ];
        let fixture = RunFixture::new();
        let begun = Signal::new(&fixture.workspace(), "begun");
        let mut child = fixture
            .command(&["run", "--yes", "work"], &variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        begun.wait();
        child.kill().unwrap();
        child.wait().unwrap();
        let out = fixture.run(&["run", "--continue"], &variables);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(text(&out.stdout), "It resumed.\n", "{}", text(&out.stderr));
        // The interrupted call is reported without a duration, because that is unknown.
        let stderr = text(&out.stderr);
        let line = stderr.lines().find(|line| line.contains("sleep 600"));
        let line = line.unwrap_or_else(|| panic!("{stderr}"));
        assert!(line.starts_with("x shell  "), "{stderr}");
        assert!(
            line.contains("unknown") && !line.contains("0.0s"),
            "{stderr}"
        );
    });
}

#[test]
fn failed_command_is_not_marked_as_successful() {
    if Sandbox::all("failed_command_is_not_marked_as_successful").is_empty() {
        return;
    }
    for (command, mark, end) in [("exit 3", "x", "exit 3"), ("true", "+", "")] {
        let (model, _) =
            ScriptedModel::calling(vec![("shell", serde_json::json!({ "command": command }))]);
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", &*model.url()),
        ];
        let out = windlass(&["run", "--yes", "work"], &variables);
        let stderr = text(&out.stderr);
        let line = stderr.lines().find(|line| line.contains("shell"));
        let line = line.unwrap_or_else(|| panic!("{stderr}"));
        assert!(
            line.starts_with(&format!("{mark} shell  {command}  ")),
            "{stderr}"
        );
        assert!(line.ends_with(end), "{stderr}");
    }
}

#[test]
fn unusable_backend_is_refused_before_a_thread_is_created() {
    let fixture = RunFixture::new();
    for (backend, why) in [
        ("acme", "there is no backend `acme`; available: claude-code"),
        ("codex", "there is no program `codex`"),
    ] {
        let words = ["run", "--backend", backend, "hello"];
        let out = fixture.run(&words, &[("PATH", "/does/not/exist")]);
        let stderr = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    let threads = fixture.run(&["threads", "list", "--json"], &[]);
    assert_eq!(text(&threads.stdout), "");
}

#[test]
fn concurrent_runs_share_a_daemon_and_the_first_waits() {
    if Sandbox::all("concurrent_runs_share_a_daemon_and_the_first_waits").is_empty() {
        return;
    }
    let answer = |request: &windlass_testkit::Request| {
        let body = request.json().to_string();
        let wait = if body.contains("the second") {
            "cat go_second"
        } else {
            "cat go_first"
        };
        let answer = if body.contains("tool_result") {
            Answer::text(&["It is done."])
        } else {
            let arguments = serde_json::json!({ "command": wait }).to_string();
            Answer::default().with_call("toolu_1", "shell", &[&arguments])
        };
        reply(200, Wire::Anthropic.events(&answer))
    };
    with_server(answer, |url| {
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", url),
        ];
        let fixture = RunFixture::new();
        let [go_first, go_second] =
            ["go_first", "go_second"].map(|name| Signal::new(&fixture.workspace(), name));
        let start = |prompt: &str| {
            let mut command = fixture.command(&["run", "--yes", "--json", prompt], &variables);
            command.stdout(Stdio::piped()).spawn().unwrap()
        };
        let until_called = |child: &mut std::process::Child| {
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let is_call = |line: &str| line.contains("item.started") && line.contains("shell");
            assert!(lines.any(|line| is_call(&line.unwrap())));
            std::thread::spawn(move || {
                let mut ends = lines
                    .map_while(Result::ok)
                    .filter(|line| line.contains("turn.completed"));
                ends.next().unwrap()
            })
        };
        let mut first = start("the first");
        let first_end = until_called(&mut first);
        let mut second = start("the second");
        let second_end = until_called(&mut second);
        // The first command is done, but continues to serve the second.
        go_first.release();
        first_end.join().unwrap();
        assert!(first.try_wait().unwrap().is_none());
        go_second.release();
        let end = second_end.join().unwrap();
        assert!(end.contains("\"status\":\"completed\""), "{end}");
        assert!(second.wait().unwrap().success());
        assert!(first.wait().unwrap().success());
    });
}

#[test]
fn run_uses_the_running_daemon() {
    let model = ScriptedModel::answering(|_| Answer::text(&["From the daemon."]));
    let home = Home::with_model(&model.url());
    let daemon = home.start_with(&[]);
    let out = home.command(&["run", "hello"]).output().unwrap();
    assert_eq!(
        text(&out.stdout),
        "From the daemon.\n",
        "{}",
        text(&out.stderr)
    );
    let token = std::fs::read_to_string(home.data().join("token")).unwrap();
    let mut client = daemon.client.clone();
    client.token = Some(token);
    let threads = client.get("/v1/threads").expect(200);
    assert_eq!(threads.as_array().unwrap().len(), 1, "{threads}");
}

#[test]
fn run_recovers_when_its_daemon_is_killed() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start_with(&[]);
    let mut command = home.command(&["run", "--yes", "hello"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let exchange = model.next_request();
    daemon.kill();
    drop(exchange);
    model.answer(&Answer::text(&["It resumed."]));
    let out = child.wait_with_output().unwrap();
    assert_eq!(text(&out.stdout), "It resumed.\n", "{}", text(&out.stderr));
    assert!(out.status.success());
}

#[test]
fn slow_daemon_is_reconnected() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let _daemon = home.start_with(&[]);
    let relay = Relay::before(&home.data());
    let mut command = home.command(&["run", "--yes", "hello"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let exchange = model.next_request();
    relay.break_off();
    model.say(exchange, &Answer::text(&["It resumed."]));
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let out = receive.recv_timeout(Duration::from_secs(60));
    let out = out.expect("it was not reached again").unwrap();
    assert_eq!(text(&out.stdout), "It resumed.\n", "{}", text(&out.stderr));
}

#[test]
fn environment_of_a_directory_is_verified_before_use() {
    let home = Home::new();
    let daemon = home.start();
    let variable = ("WINDLASS_RUNTIME_TOKEN", TOKEN);
    let directory = home.workspace.join("below");
    std::fs::create_dir(&directory).unwrap();
    let run = || {
        let mut command = home.command(&["run", "hello"]);
        let command = command.envs([variable]).current_dir(&directory);
        command.output().unwrap()
    };
    assert!(run().status.success());
    // The environment exists with the expected root and policy.
    assert!(run().status.success());
    let all = daemon.client.get("/v1/environments").expect(200);
    let all = all["environments"].as_array().unwrap();
    let mut ids = all.iter().map(|it| it["id"].as_str().unwrap());
    let id = ids.find(|id| id.starts_with("dir-")).unwrap();
    let path = format!("/v1/environments/{id}");
    for (root, policy) in [
        (home.path(), serde_json::json!({})),
        (directory.as_path(), serde_json::json!({ "write": false })),
    ] {
        daemon.client.request("DELETE", &path, &[], "");
        let other = serde_json::json!({ "id": id, "root": root, "policy": policy });
        daemon.client.post("/v1/environments", &other).expect(201);
        let out = run();
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        assert!(text(&out.stderr).contains(id), "{out:?}");
    }
}

#[test]
fn unattended_yes_run_answers_questions_and_offers_no_question_tool() {
    let question = serde_json::json!({ "questions": [{
        "id": "colour", "header": "Colour", "question": "Which colour?",
        "options": [
            { "label": "Red", "description": "Like the barn." },
            { "label": "Blue", "description": "Like the door." },
        ],
    }] });
    let (model, requests) = ScriptedModel::calling(vec![("request_user_input", question)]);
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&serde_json::json!({}));
    daemon.turn(&thread, "Paint it.");
    daemon
        .client
        .events(&thread, 0)
        .until("user_input.required");
    let id = thread.rsplit_once('/').unwrap().1;
    let mut command = home.command(&["run", "--yes", "--resume", id]);
    let out = command.env("WINDLASS_RUNTIME_TOKEN", TOKEN).output();
    let out = out.unwrap();
    assert_eq!(text(&out.stdout), "done\n", "{}", text(&out.stderr));
    let results = requests.results();
    assert!(results[0].contains("No user is available"), "{results:?}");

    let asking = "request_user_input".to_owned();
    assert!(requests.tools().contains(&asking));
    let mut command = home.command(&["run", "--yes", "Paint it."]);
    let out = command.env("WINDLASS_RUNTIME_TOKEN", TOKEN).output();
    assert!(out.unwrap().status.success());
    assert!(
        !requests.tools().contains(&asking),
        "{:?}",
        requests.tools()
    );
}

#[test]
fn thread_continues_with_another_model_but_no_other_agent() {
    let model =
        ScriptedModel::answering(|request| Answer::text(&[request["model"].as_str().unwrap()]));
    let home = Home::with_model(&model.url());
    let answer_of = |arguments: &[&str]| {
        let out = home.command(arguments).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        text(&out.stdout).trim_end().to_owned()
    };
    assert_eq!(
        answer_of(&["run", "--model", "anthropic/first", "a"]),
        "first"
    );
    let again = ["run", "--continue", "--model", "anthropic/second", "b"];
    assert_eq!(answer_of(&again), "second");
    // The flag applied to one turn only.
    assert_eq!(answer_of(&["run", "--continue", "c"]), "first");
    for flag in ["--backend", "--system"] {
        let words = ["run", "--continue", flag, "codex", "d"];
        let out = home.command(&words).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        assert!(text(&out.stderr).contains("cannot be used with"), "{out:?}");
    }
}

#[test]
fn command_without_a_daemon_obeys_daemon_variables() {
    let home = Home::new();
    let key = home.path().join("missing.key");
    let mut command = home.command(&["run", "hello"]);
    let out = command.env("WINDLASS_SECRETS_KEY_FILE", &key).output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(text(&out.stderr).contains("missing.key"), "{out:?}");
    let mut command = home.command(&["run", "hello"]);
    let out = command.env("WINDLASS_SECRETS_KEY_FILE", " ").output();
    assert!(out.unwrap().status.success());

    // Clients that present the token of the variable are accepted.
    let variable = [("WINDLASS_RUNTIME_TOKEN", TOKEN)];
    let mut chat = home.command(&["chat"]);
    let chat = chat.envs(variable).stdin(Stdio::piped());
    let mut chat = chat.stdout(Stdio::piped()).spawn().unwrap();
    chat.stdin.as_mut().unwrap().write_all(b"here\n").unwrap();
    let mut line = String::new();
    BufReader::new(chat.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let mut list = home.command(&["threads", "list"]);
    let listed = list.envs(variable).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    drop(chat.stdin.take());
    assert!(chat.wait().unwrap().success());
}

#[test]
fn every_provider_answers_at_the_configured_address() {
    for (wire, model, key, url_variable) in [
        (
            Wire::OpenAi,
            "openai/gpt-5-mini",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
        ),
        (
            Wire::OpenAiChat,
            "openai-chat/some/model",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
        ),
        (
            Wire::Anthropic,
            "anthropic/claude-opus-5",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
        ),
        (
            Wire::Gemini,
            "gemini/gemini-3.5-flash",
            "GEMINI_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
        ),
    ] {
        let answer = move |_: &_| reply(200, wire.events(&Answer::text(&["Hel", "lo."])));
        with_server(answer, |url| {
            let url = if url_variable == "OPENAI_BASE_URL" {
                format!("{url}/v1")
            } else {
                url.to_owned()
            };
            let variables = [(key, "test-key"), (url_variable, url.as_str())];
            let out = windlass(&["run", "hello", "--model", model], &variables);
            assert_eq!(
                text(&out.stdout),
                "Hello.\n",
                "{model}: {}",
                text(&out.stderr)
            );
            assert!(out.status.success());
        });
    }
}

#[test]
fn failed_provider_request_is_retried() {
    let requests = AtomicUsize::new(0);
    let answer = move |_: &_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => reply(500, vec![Wire::Anthropic.error(500, "oops").to_string()]),
        _ => reply(200, Wire::Anthropic.events(&Answer::text(&["fine"]))),
    };
    with_server(answer, |url| {
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", url),
        ];
        let out = windlass(&["run", "hello", "--json"], &variables);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(text(&out.stdout).contains("fine"), "{}", text(&out.stdout));
    });
}

#[test]
fn rejected_key_is_not_shown_in_the_error() {
    let answer = |_: &_| {
        let body = Wire::Anthropic.error(401, "invalid x-api-key: test-key");
        reply(401, vec![body.to_string()])
    };
    with_server(answer, |url| {
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", url),
        ];
        let out = windlass(&["run", "hello"], &variables);
        assert_eq!(out.status.code(), Some(1));
        let stderr = text(&out.stderr);
        assert!(
            stderr.contains("error (auth)") && stderr.contains("check the key"),
            "{stderr}"
        );
        let hint = format!(
            "anthropic/claude-haiku-4-5 at {}",
            url.replace("http://", "")
        );
        assert!(stderr.contains(&hint), "{stderr}");
        assert!(!stderr.contains("test-key"), "{stderr}");
        assert_eq!(text(&out.stdout), "");
    });
}

#[test]
fn invalid_address_is_refused_before_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(
        &file,
        "[providers.gemini]\nbase_url = 'http://me:hunter2@127.0.0.1:9'\n",
    )
    .unwrap();
    let config = ["run", "hello", "--config", file.to_str().unwrap()];
    let key = ("ANTHROPIC_API_KEY", "test-key");
    let bad = ("ANTHROPIC_BASE_URL", "localhost:9");
    for (arguments, variables, source) in [
        (&["run", "hello"][..], &[key, bad][..], "ANTHROPIC_BASE_URL"),
        (&config[..], &[key][..], "`providers.gemini.base_url`"),
    ] {
        let out = windlass(arguments, variables);
        let stderr = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(source), "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}

#[test]
fn invalid_command_line_or_configuration_exits_with_2() {
    for arguments in [
        &["run"][..],
        &["run", "hello", "--model", "acme/x"],
        &["run", "hello", "--model", "openai/gpt-5"],
        &["run", "hello", "--config", "missing.toml"],
        &["run", ""],
        &["run", "-"],
    ] {
        let out = windlass(arguments, &[]);
        assert_eq!(
            out.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&out.stderr)
        );
    }
}

#[test]
fn file_configures_model_address_and_key() {
    let answer = |request: &windlass_testkit::Request| {
        // The key itself would be masked in the answer.
        let seen = match request.header("authorization") {
            Some("Bearer from-file") => "the key of the file",
            Some(_) => "another key",
            None => "no key",
        };
        reply(200, Wire::OpenAiChat.events(&Answer::text(&[seen])))
    };
    with_server(answer, |url| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let config = format!(
            "model = 'openai-chat/llama'\n[providers.openai-chat]\nbase_url = '{url}/v1'\napi_key = 'from-file'"
        );
        std::fs::write(&file, config).unwrap();
        let out = windlass(&["run", "hello", "--config", file.to_str().unwrap()], &[]);
        assert_eq!(
            text(&out.stdout),
            "the key of the file\n",
            "{}",
            text(&out.stderr)
        );
        std::fs::write(
            &file,
            "[providers.openai]\napi_key = 'secret-value'\nnonsense = 1",
        )
        .unwrap();
        let out = windlass(&["run", "hello", "--config", file.to_str().unwrap()], &[]);
        assert_eq!(out.status.code(), Some(2));
        let stderr = text(&out.stderr);
        assert!(
            stderr.contains("line 3") && stderr.contains("`nonsense`"),
            "{stderr}"
        );
        assert!(!stderr.contains("secret-value"), "{stderr}");
    });
}

#[test]
fn unknown_provider_in_the_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, "[providers.opnai]\napi_key = 'secret-value'").unwrap();
    let out = windlass(&["run", "hello", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(out.status.code(), Some(2));
    let stderr = text(&out.stderr);
    assert!(
        stderr.contains("`opnai`") && stderr.contains("openai") && !stderr.contains("secret-value"),
        "{stderr}"
    );
}

#[test]
fn prompt_is_read_from_stdin() {
    let fixture = RunFixture::new();
    let mut child = fixture
        .command(&["run", "-", "--model", "sim"], &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(text(&out.stdout), "Echo: a\nb\n");
}

#[test]
fn closed_stdout_is_not_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let fixture = RunFixture::new();
    let out = fixture
        .command(&["run", "hello", "--model", "sim"], &[])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(!text(&out.stderr).contains("error"), "{out:?}");
    // The turn ends or is interrupted, whichever comes first.
    let table = fixture.run(&["threads", "list"], &[]);
    assert!(!text(&table.stdout).contains("[open]"), "{table:?}");
}

#[test]
fn directory_name_without_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = RunFixture::new();
    let odd = fixture
        .workspace()
        .join(std::ffi::OsStr::from_bytes(b"odd\x9b"));
    std::fs::create_dir(&odd).unwrap();
    let mut command = fixture.command(&["run", "hello", "--model", "sim"], &[]);
    let out = command.current_dir(&odd).output().unwrap();
    let stderr = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is not UTF-8"), "{stderr}");
}

#[test]
fn interrupt_during_an_answer_ends_the_turn() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut server = FakeServer::start().await.unwrap();
        let wire = Wire::OpenAiChat;
        let variables = [
            ("OPENAI_API_KEY", "key"),
            ("OPENAI_BASE_URL", &server.url()),
        ];
        let fixture = RunFixture::new();
        let mut child = fixture
            .command(&["run", "hello", "--model", "openai-chat/some"], &variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        let events = wire.events(&Answer::text(&["Half of", " it"]));
        let end = events.iter().position(|event| event.contains("Half of"));
        for event in &events[..=end.unwrap()] {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        let mut shown = [0; 7];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut shown)
            .unwrap();
        assert_eq!(text(&shown), "Half of");
        let killed = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        // The connection closes, so that the provider stops writing.
        exchange.closed().await;
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
        assert_eq!(text(&out.stderr).lines().last(), Some("interrupted"));
    });
}

#[test]
fn demonstration_never_answers_for_a_named_model() {
    let mut home = Home::new();
    home.variables.clear();
    let _daemon = home.start();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        let key = ("ANTHROPIC_API_KEY", "test-key");
        let token = ("WINDLASS_RUNTIME_TOKEN", TOKEN);
        command.envs([key, token]).current_dir(&home.workspace);
        command.output().unwrap()
    };
    let out = run(&["run", "--yes", "--model", "anthropic/some-model", "hello"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    let stderr = text(&out.stderr);
    assert!(
        stderr.contains("`anthropic/some-model` is not available"),
        "{stderr}"
    );
    // Without `--model`, the demonstration answers, and a notice names it.
    let out = run(&["run", "--yes", "hello"]);
    assert!(out.status.success(), "{out:?}");
    let stderr = text(&out.stderr);
    assert!(
        stderr.contains("its demonstration model responds"),
        "{stderr}"
    );
    let listed = run(&["threads", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let what_if = ["--what-if", "openai/gpt-5-mini"];
    let id = listed["id"].as_str().unwrap();
    let out = run(&[&["replay", id], &what_if[..]].concat());
    assert_eq!(out.status.code(), Some(2), "{out:?}");
}
