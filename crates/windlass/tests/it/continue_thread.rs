//! Continuing a thread: the provider and model that started it answer, or the command is rejected.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::runtime::Runtime;
use windlass_testkit::{After, Answer, FakeServer, Reply, Request, Wire};

use crate::run::{RunFixture, text};
use crate::support::{Home, ScriptedModel, text as json_text};

/// A provider that answers every request and records its body.
struct Provider {
    server: FakeServer,
    received: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

impl Provider {
    fn start(wire: Wire, answer: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        let reply = move |request: &Request| {
            log.lock().unwrap().push(request.json().to_string());
            Reply {
                status: 200,
                headers: Vec::new(),
                chunks: wire.events(&Answer::text(&[answer])),
                after: After::End,
            }
        };
        let server = runtime.block_on(FakeServer::answering(reply)).unwrap();
        Self {
            server,
            received,
            _runtime: runtime,
        }
    }

    fn requests(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

#[test]
fn history_is_sent_to_another_provider_only_if_a_model_is_named() {
    let anthropic = Provider::start(Wire::Anthropic, "from the first provider");
    let openai = Provider::start(Wire::OpenAi, "from the second provider");
    let (first, second) = (anthropic.server.url(), openai.server.url());
    let first = [
        ("ANTHROPIC_API_KEY", "a"),
        ("ANTHROPIC_BASE_URL", first.as_str()),
    ];
    let second = [
        ("OPENAI_API_KEY", "o"),
        ("OPENAI_BASE_URL", second.as_str()),
    ];
    let fixture = RunFixture::new();
    let out = fixture.run(&["run", "remember 4711"], &first);
    assert!(out.status.success(), "{}", text(&out.stderr));

    let out = fixture.run(&["run", "--continue", "and now?"], &second);
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert!(
        message.contains("this thread uses anthropic/claude-haiku-4-5"),
        "{message}"
    );
    assert!(message.contains("set ANTHROPIC_API_KEY"), "{message}");
    assert!(message.contains("--model openai/"), "{message}");
    assert_eq!(openai.requests(), [""; 0]);

    let both = [first, second].concat();
    let out = fixture.run(&["run", "--continue", "and now?"], &both);
    assert_eq!(text(&out.stdout), "from the first provider\n");
    assert!(anthropic.requests()[1].contains("claude-haiku-4-5"));
    assert_eq!(openai.requests(), [""; 0]);

    let named = ["run", "--continue", "--model", "openai/gpt-x", "and you?"];
    let out = fixture.run(&named, &second);
    assert_eq!(text(&out.stdout), "from the second provider\n");
    let [request] = &openai.requests()[..] else {
        panic!("{:?}", openai.requests());
    };
    assert!(request.contains("gpt-x") && request.contains("4711"));
}

#[test]
fn demonstration_model_never_answers_in_a_thread_of_a_real_model() {
    let anthropic = Provider::start(Wire::Anthropic, "a real answer");
    let url = anthropic.server.url();
    let key = [
        ("ANTHROPIC_API_KEY", "a"),
        ("ANTHROPIC_BASE_URL", url.as_str()),
    ];
    let fixture = RunFixture::new();
    fixture.run(&["run", "remember 4711"], &key);
    let before = fixture.run(&["threads", "list", "--json"], &[]).stdout;
    for arguments in [
        &["run", "--continue", "and now?"][..],
        &["run", "--continue", "--model", "demonstration", "and now?"],
    ] {
        let out = fixture.run(arguments, &[]);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(
            message.contains("this thread uses anthropic/claude-haiku-4-5"),
            "{message}"
        );
        assert_eq!(text(&out.stdout), "");
    }
    let after = fixture.run(&["threads", "list", "--json"], &[]).stdout;
    assert_eq!(text(&before), text(&after));
}

#[test]
fn real_model_continues_a_demonstration_thread_only_if_named() {
    let anthropic = Provider::start(Wire::Anthropic, "a real answer");
    let url = anthropic.server.url();
    let key = [
        ("ANTHROPIC_API_KEY", "a"),
        ("ANTHROPIC_BASE_URL", url.as_str()),
    ];
    let fixture = RunFixture::new();
    fixture.run(&["run", "what is here?"], &[]);
    let out = fixture.run(&["run", "--continue", "and now?"], &key);
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert!(message.contains("--model anthropic/"), "{message}");
    assert_eq!(anthropic.requests(), [""; 0]);
    let named = ["run", "--continue", "--model", "anthropic", "and now?"];
    let out = fixture.run(&named, &key);
    assert_eq!(
        text(&out.stdout),
        "a real answer\n",
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn turns_without_the_provider_key_are_refused_and_not_recorded() {
    let mut model = ScriptedModel::start();
    let mut home = Home::with_model(&model.url());
    let daemon = home.start();
    let path = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "remember 4711");
    model.answer(&Answer::text(&["yes"]));
    events.until("turn.completed");
    let before = daemon.detail(&path)["latest_seq"].clone();
    daemon.stop();

    home.variables.clear();
    let daemon = home.start();
    for body in [
        json!({ "prompt": "and now?" }),
        json!({ "prompt": "and now?", "model": "auto" }),
        json!({ "prompt": "and now?", "model": "claude-haiku-4-5" }),
        json!({ "prompt": "and now?", "model": "another" }),
    ] {
        let refused = daemon.client.post(&format!("{path}/turns"), &body);
        let refused = refused.expect(409);
        assert_eq!(
            json_text(&refused["error"]["code"]),
            "provider_unusable",
            "{body}"
        );
        let details = &refused["error"]["details"];
        assert_eq!(details["model"], "anthropic/claude-haiku-4-5", "{refused}");
        assert_eq!(
            details["variables"],
            json!(["ANTHROPIC_API_KEY"]),
            "{refused}"
        );
    }
    assert_eq!(daemon.detail(&path)["latest_seq"], before);
    // Clients of a daemon without a key get answers in their own threads.
    let of_client = json!({ "model": "deepseek-ai/some-model", "auto_approve": true });
    let path = daemon.thread(&of_client);
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "hello");
    events.until("turn.completed");
}

#[test]
fn open_turn_does_not_resume_with_another_provider() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let path = daemon.thread(&json!({}));
    daemon.turn(&path, "remember 4711");
    let _unanswered = model.next_request();
    daemon.kill();

    let openai = Provider::start(Wire::OpenAi, "from the second provider");
    let second = openai.server.url();
    let id = path.rsplit('/').next().unwrap();
    for variables in [
        vec![],
        vec![
            ("OPENAI_API_KEY", "o"),
            ("OPENAI_BASE_URL", second.as_str()),
        ],
    ] {
        let mut command = home.command(&["run", "--resume", id]);
        command.env_remove("ANTHROPIC_API_KEY");
        command.env_remove("ANTHROPIC_BASE_URL").envs(variables);
        let out = command.output().unwrap();
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{message}");
        assert!(message.contains("set ANTHROPIC_API_KEY"), "{message}");
    }
    assert_eq!(openai.requests(), [""; 0]);
    // With the key of its provider, the thread resumes.
    let mut resumed = home.command(&["run", "--resume", id]);
    let resumed = resumed
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    model.answer(&Answer::text(&["resumed"]));
    let out = resumed.wait_with_output().unwrap();
    assert_eq!(text(&out.stdout), "resumed\n");
}
