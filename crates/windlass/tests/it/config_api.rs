//! The configuration over the API: reading and reloading it.

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, ScriptedModel, text};

const KEY: &str = "sk-keep-me-7391";

/// Returns the model that a new thread uses.
fn answering_model(daemon: &Daemon) -> String {
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "who are you?");
    events.until("turn.completed");
    text(&daemon.detail(&thread)["items"][1]["detail"])
}

fn reload(daemon: &Daemon) -> (u16, Value) {
    let reply = daemon.client.post("/v1/config/reload", &json!({}));
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

#[test]
fn reload_reads_the_file_again() {
    let model =
        ScriptedModel::answering(|request| Answer::text(&[request["model"].as_str().unwrap()]));
    let home = Home::with_model(&model.url());
    let first = "model = 'anthropic/first'\n[limits]\nconnections = 99\n";
    home.configure(first);
    let daemon = home.start();
    assert_eq!(answering_model(&daemon), "first");
    let (status, response) = reload(&daemon);
    assert_eq!(
        (status, &response["applied"], &response["needs_restart"]),
        (200, &json!([]), &json!([]))
    );

    home.configure(
        "model = 'anthropic/second'\nmodels = ['anthropic/third']\n[limits]\nconnections = 98\n",
    );
    let (status, response) = reload(&daemon);
    assert_eq!(
        (status, &response["applied"], &response["needs_restart"]),
        (
            200,
            &json!(["model", "models"]),
            &json!(["limits.connections"])
        )
    );
    assert_eq!(answering_model(&daemon), "second");
    let models = daemon
        .client
        .get("/v1/providers/anthropic/models")
        .expect(200);
    assert!(
        models["models"]
            .as_array()
            .unwrap()
            .contains(&json!({"id": "third"})),
        "{models}"
    );

    // A file that is invalid, refers to something missing, or is untrusted changes nothing.
    let file = home.path().join("windlass.toml");
    for (text, why) in [
        ("modle = 1", "modle"),
        ("model = 'gemini/x'", "GEMINI_API_KEY"),
    ] {
        home.configure(first);
        std::fs::write(&file, text).unwrap();
        let _ = home.command(&["config", "trust"]).output().unwrap();
        let (status, response) = reload(&daemon);
        assert_eq!(
            (status, &response["error"]["code"]),
            (400, &json!("config_invalid"))
        );
        let message = text_of(&response);
        assert!(
            message.contains(why) || message.contains("trusted"),
            "{message}"
        );
        assert_eq!(answering_model(&daemon), "second");
    }
    std::fs::write(&file, "model = 'anthropic/evil'").unwrap();
    let (status, response) = reload(&daemon);
    assert_eq!(
        (status, &response["error"]["code"]),
        (400, &json!("config_invalid"))
    );
    assert!(text_of(&response).contains("trusted"), "{response}");
    assert_eq!(answering_model(&daemon), "second");

    home.configure(first);
    assert_eq!(reload(&daemon).1["applied"], json!(["model", "models"]));
    assert_eq!(answering_model(&daemon), "first");
}

#[test]
fn reload_refuses_what_a_start_refuses() {
    let home = Home::new();
    home.configure("[limits]\nthreads = 50\n");
    let daemon = home.start();
    for (text, why) in [
        ("[tasks]\nworkers = 9\n", "tasks.workers"),
        ("[tasks]\ntime_zone = 'Mars/Olympus'\n", "Mars/Olympus"),
        ("[retention]\nmax_age_days = 0\n", "retention.max_age_days"),
        ("[checkpoints]\nmax_mb = 0\n", "checkpoints.max_mb"),
        ("[outputs]\neach_mb = 0\n", "outputs.each_mb"),
        ("[budget]\nday_usd = -1.0\n", "day_usd"),
        ("[web]\nallow = ['ht!tp://']\n", "[web]"),
        ("[backends.x]\n", "[backends.x]"),
        ("[environments.x]\nroot = '/does/not/exist'\n", "`x`"),
        ("[mcp_servers.x]\n", "mcp_servers.x"),
        (
            "[secrets.X]\nvariable = 'NOT_SET'\ncommands = true\n",
            "secrets.X",
        ),
    ] {
        home.configure(text);
        let (status, response) = reload(&daemon);
        assert_eq!(
            (status, &response["error"]["code"]),
            (400, &json!("config_invalid")),
            "{text}: {response}"
        );
        let by_reload = text_of(&response);
        assert!(by_reload.contains(why), "{by_reload}");
        // A start rejects the same file.
        let fresh = home.path().join("fresh");
        let trust = |data: &std::path::Path| {
            let mut trust = home.command(&["config", "trust"]);
            assert!(
                trust
                    .env("WINDLASS_DATA", data)
                    .output()
                    .unwrap()
                    .status
                    .success()
            );
        };
        trust(&fresh);
        let mut serve = home.command(&["serve", "--port", "0", "--token", "t"]);
        let refused = serve.env("WINDLASS_DATA", &fresh).output().unwrap();
        let by_start = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{by_start}");
        assert!(by_start.contains(why), "{by_start}");
        assert!(!fresh.join("windlass.db").exists(), "{text}");
        std::fs::remove_dir_all(&fresh).unwrap();
    }
    home.configure("[limits]\nthreads = 51\n");
    assert_eq!(
        reload(&daemon).1["needs_restart"],
        json!(["limits.threads"])
    );
}

#[test]
fn file_only_key_is_recognised_and_not_settable() {
    let home = Home::new();
    let daemon = home.start();
    let set = |key: &str| {
        let body = json!({ "key": key, "value": "1", "persist": true });
        daemon.client.post("/v1/config", &body)
    };
    for key in [
        "limits.threads",
        "retention.max_age_days",
        "providers.openai.base_url",
        "shell",
    ] {
        let refused = set(key);
        assert_eq!(
            refused.code(),
            "restart_required",
            "{key}: {}",
            refused.body
        );
        assert!(refused.body.contains("windlass.toml") && refused.body.contains(key));
    }
    assert_eq!(set("limits.thread").code(), "unknown_setting");
}

#[test]
fn provider_address_change_applies_to_all_models_at_once() {
    let named = |place: &'static str| {
        ScriptedModel::answering(move |request| {
            Answer::text(&[place, request["model"].as_str().unwrap_or_default()])
        })
    };
    let (first, second) = (named("first "), named("second "));
    let mut home = Home::new();
    home.variables.clear();
    let say = |url: &str, more: &str| {
        home.configure(&format!(
            "model = 'anthropic/own'\nmodels = ['anthropic/further']\n\
             [providers.anthropic]\napi_key = '{KEY}'\nbase_url = '{url}'\n{more}"
        ));
    };
    say(&first.url(), "");
    let daemon = home.start();
    let asked_for = |model: &str| {
        let thread = daemon.thread(&json!({ "model": model }));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "who are you?");
        events.until("turn.completed");
        text(&daemon.detail(&thread)["items"][1]["detail"])
    };
    let all = || ["auto", "anthropic/further", "unknown"].map(asked_for);
    assert_eq!(all(), ["first own", "first further", "first unknown"]);
    say(&second.url(), "max_parallel_calls = 3\n");
    let (status, response) = reload(&daemon);
    assert_eq!(
        (status, &response["applied"], &response["needs_restart"]),
        (
            200,
            &json!(["providers.anthropic.base_url"]),
            &json!(["providers.anthropic.max_parallel_calls"])
        )
    );
    assert_eq!(all(), ["second own", "second further", "second unknown"]);
}

fn text_of(response: &Value) -> String {
    text(&response["error"]["message"])
}

#[test]
fn providers_are_listed_without_keys() {
    let mut home = Home::new();
    home.variables.clear();
    home.configure(&format!(
        "model = 'openai-chat/own'\n[providers.openai-chat]\napi_key = '{KEY}'\nbase_url = 'http://127.0.0.1:9/v1'\n\
         [approvals]\ndefault = 'allow'\n[subagents]\nenabled = false\n"
    ));
    let daemon = home.start();
    for path in [
        "/v1/config",
        "/v1/providers",
        "/v1/providers/openai-chat/models",
        "/v1/skills",
    ] {
        let reply = daemon.client.get(path);
        assert!(!reply.body.contains("7391"), "{}", reply.body);
        reply.expect(200);
    }
    let config = daemon.client.get("/v1/config").expect(200);
    assert_eq!(
        (
            &config["model"],
            &config["provider"],
            &config["base_url"],
            &config["approval_mode"],
            &config["subagents_enabled"]
        ),
        (
            &json!("own"),
            &json!("openai-chat"),
            &json!("http://127.0.0.1:9/v1"),
            &json!("auto"),
            &json!(false)
        )
    );
    let listed = daemon.client.get("/v1/providers").expect(200);
    let usable = listed["providers"].as_array().unwrap().iter();
    let usable = usable.filter(|provider| provider["usable"] == true);
    let usable: Vec<_> = usable.map(|provider| text(&provider["id"])).collect();
    assert_eq!(
        (&listed["current"], usable),
        (&json!("openai-chat"), vec!["openai-chat".to_owned()])
    );
    let refused = daemon
        .client
        .post("/v1/providers/anthropic/switch", &json!({}));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "provider_unusable")
    );
    assert!(
        refused.body.contains("ANTHROPIC_API_KEY"),
        "{}",
        refused.body
    );
}

#[test]
fn demonstration_reports_a_needed_restart_when_a_model_is_configured() {
    let mut home = Home::new();
    home.variables.clear();
    home.configure("[limits]\nthreads = 50\n");
    let daemon = home.start();
    home.configure("model = 'openai-chat/own'\n[limits]\nthreads = 50\n[providers.openai-chat]\nbase_url = 'http://127.0.0.1:9/v1'\n");
    let (status, response) = reload(&daemon);
    assert_eq!(
        (status, &response["applied"], &response["needs_restart"]),
        (
            200,
            &json!([]),
            &json!(["model", "providers.openai-chat.base_url"])
        )
    );
}

#[test]
fn declared_automations_follow_the_file_and_are_read_only() {
    let home = Home::new();
    let entry = |name: &str, cron: &str| {
        format!("[automations.{name}]\nprompt = 'look'\ncron = '{cron}'\n")
    };
    home.configure(&(entry("one", "0 9 * * 1-5") + &entry("two", "@daily")));
    let daemon = home.start();
    let listed = || {
        let listed = daemon.client.get("/v1/automations").expect(200);
        let listed = listed.as_array().unwrap().iter();
        let mut names: Vec<_> = listed
            .map(|one| (text(&one["name"]), text(&one["rrule"]), text(&one["id"])))
            .collect();
        names.sort();
        names
    };
    let first = listed();
    assert_eq!(first.len(), 2, "{first:?}");
    assert_eq!(
        (&*first[0].0, &*first[0].1, &*first[1].0),
        ("one", "0 9 * * 1-5", "two")
    );
    let path = format!("/v1/automations/{}", first[0].2);
    let change = json!({"name": "other"}).to_string();
    let refused = daemon.client.request("PATCH", &path, &[], &change);
    let refused = refused.expect(409);
    assert_eq!(refused["error"]["code"], "automation_declared");
    assert!(text_of(&refused).contains("[automations.one]"), "{refused}");
    for action in ["pause", "resume"] {
        let reply = daemon.client.post(&format!("{path}/{action}"), &json!({}));
        reply.expect(409);
    }

    home.configure(&entry("one", "0 10 * * *"));
    let (status, response) = reload(&daemon);
    assert_eq!((status, &response["needs_restart"]), (200, &json!([])));
    let second = listed();
    assert_eq!(second.len(), 1, "{second:?}");
    assert_eq!((&*second[0].1, &second[0].2), ("0 10 * * *", &first[0].2));
}
