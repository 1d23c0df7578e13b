//! The daemon's configuration and its model providers over the API.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_protocol::config::ProviderEntry;
use windlass_server::{
    Access, ModelProvider, Models, Reload, Reloaded, Settings, TokenFile, TokenScope, UnknownModels,
};

use crate::support::{Client, Setup, TestDaemon, other_model, soon, text};

/// Two providers in addition to the demo's own, one of them without a key.
fn providers(settings: &mut Settings) {
    let entry = |id: &str, usable: bool| ProviderEntry {
        id: id.to_owned(),
        display_name: id.to_uppercase(),
        default_model: format!("{id}-usual"),
        env_vars: vec![format!("{}_KEY", id.to_uppercase())],
        usable,
        ..ProviderEntry::default()
    };
    settings.config.providers = vec![entry("far", true), entry("keyless", false)];
    let known = [("far/far-usual".to_owned(), other_model())];
    let far = ModelProvider {
        id: Some(other_model()),
        key_variables: vec!["FAR_KEY".to_owned()],
    };
    settings.models.providers = [("far".to_owned(), far)].into();
    settings.models.known = known.into();
}

async fn set(daemon: &TestDaemon, key: &str, value: &str) -> Value {
    let body = json!({"key": key, "value": value, "persist": true});
    daemon.client.post("/v1/config", body).await.expect(200)
}

async fn refused(daemon: &TestDaemon, key: &str, value: &str) -> (u16, String, Value) {
    let body = json!({"key": key, "value": value, "persist": true});
    let reply = daemon.client.post("/v1/config", body).await;
    let details = reply.json()["error"]["details"].clone();
    (reply.status, reply.code(), details)
}

async fn thread(daemon: &TestDaemon) -> Value {
    let made = daemon.client.post("/v1/threads", json!({})).await;
    made.expect(201)
}

#[tokio::test]
async fn configuration_has_every_field_that_clients_read() {
    let daemon = Setup::settings(providers).start().await;
    let config = daemon.client.get("/v1/config").await.expect(200);
    for text in [
        "model",
        "provider",
        "approval_mode",
        "reasoning_effort",
        "cost_currency",
        "default_mode",
        "default_model",
        "base_url",
        "mcp_config_path",
        "inline_diffs",
        "locale",
        "sandbox_mode",
        "search_provider",
    ] {
        assert!(config[text].is_string(), "{text}: {config}");
    }
    for flag in [
        "auto_compact",
        "allow_shell",
        "subagents_enabled",
        "show_thinking",
        "thinking_default_expanded",
        "thinking_highlight",
        "show_tool_details",
        "workspace_follow_symlinks",
        "calm_mode",
        "prefer_external_pdftotext",
        "strict_tool_mode",
        "memory_enabled",
        "prompt_suggestion",
    ] {
        assert!(config[flag].is_boolean(), "{flag}: {config}");
    }
    assert!(config["max_history"].is_u64() && config["subagents_max_depth"].is_u64());
    assert_eq!(
        (&config["model"], &config["provider"]),
        (&json!("demo-model"), &json!("demo"))
    );
}

#[tokio::test]
async fn settings_apply_to_new_threads_at_once_and_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let setup = || Setup {
        data: Some(data.path().join("store")),
        ..Setup::settings(providers)
    };
    let daemon = setup().start().await;
    let before = thread(&daemon).await;
    let answer = set(&daemon, "Model", " other ").await;
    assert_eq!(
        (
            &answer["key"],
            &answer["value"],
            &answer["persisted"],
            &answer["requires_reload"]
        ),
        (
            &json!("model"),
            &json!("other"),
            &json!(true),
            &json!(false)
        )
    );
    set(&daemon, "reasoning_effort", "high").await;
    set(&daemon, "default_mode", "2").await;
    set(&daemon, "allow_shell", "false").await;
    let expected = |thread: &Value| {
        assert_eq!(
            (
                &thread["model"],
                &thread["reasoning_effort"],
                &thread["mode"],
                &thread["allow_shell"]
            ),
            (
                &json!("other"),
                &json!("high"),
                &json!("plan"),
                &json!(false)
            )
        );
    };
    expected(&thread(&daemon).await);
    // A client's setting takes precedence, and an existing thread is unchanged.
    let body = json!({"model": "demo-model", "mode": "agent", "allow_shell": true});
    let chosen = daemon.client.post("/v1/threads", body).await.expect(201);
    assert_eq!(
        (&chosen["model"], &chosen["mode"], &chosen["allow_shell"]),
        (&json!("demo-model"), &json!("agent"), &json!(true))
    );
    let path = format!("/v1/threads/{}", text(&before["id"]));
    assert_eq!(daemon.detail(&path).await["thread"]["model"], "demo-model");
    daemon.say(&path, "hello").await;
    assert_eq!(
        daemon.model.requests().last().unwrap().config.model,
        "demo-model"
    );
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;

    let daemon = setup().start().await;
    let shown = daemon.client.get("/v1/config").await.expect(200);
    assert_eq!(
        (
            &shown["model"],
            &shown["default_mode"],
            &shown["allow_shell"]
        ),
        (&json!("other"), &json!("plan"), &json!(false))
    );
    let made = thread(&daemon).await;
    expected(&made);
    daemon
        .say(&format!("/v1/threads/{}", text(&made["id"])), "hello")
        .await;
    assert_eq!(
        daemon.model.requests().last().unwrap().config.model,
        "other"
    );
    for (key, value) in [
        ("model", "auto"),
        ("reasoning_effort", ""),
        ("default_mode", ""),
        ("allow_shell", ""),
    ] {
        set(&daemon, key, value).await;
    }
    assert_eq!(thread(&daemon).await["model"], "demo-model");
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
}

#[tokio::test]
async fn model_given_at_startup_overrides_an_earlier_choice() {
    let data = tempfile::tempdir().unwrap();
    let setup = |is_given: bool| Setup {
        data: Some(data.path().join("store")),
        ..Setup::settings(move |settings| settings.config.is_model_given = is_given)
    };
    let daemon = setup(false).start().await;
    set(&daemon, "model", "stored").await;
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
    // Another choice in between does not discard it.
    let daemon = setup(true).start().await;
    assert_eq!(thread(&daemon).await["model"], "demo-model");
    set(&daemon, "reasoning_effort", "high").await;
    assert_eq!(thread(&daemon).await["model"], "demo-model");
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
    let daemon = setup(false).start().await;
    assert_eq!(thread(&daemon).await["model"], "stored");
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
    let daemon = setup(true).start().await;
    set(&daemon, "model", "later").await;
    assert_eq!(thread(&daemon).await["model"], "later");
}

#[tokio::test]
async fn value_without_persist_is_only_validated() {
    let daemon = Setup::settings(providers).start().await;
    let body = json!({"key": "model", "value": "other"});
    let answer = daemon.client.post("/v1/config", body).await.expect(200);
    assert_eq!(answer["persisted"], false);
    assert_eq!(thread(&daemon).await["model"], "demo-model");
    let body = json!({"key": "model", "value": "-x"});
    let reply = daemon.client.post("/v1/config", body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (422, "invalid_field")
    );
}

#[tokio::test]
async fn static_setting_reports_where_to_change_it() {
    let daemon = Setup::settings(providers).start().await;
    for (key, setting) in [
        ("approval_mode", "approvals.default"),
        ("base_url", "providers.<name>.base_url"),
        ("sandbox_mode", "shell.sandbox"),
        ("subagents_enabled", "subagents.enabled"),
        ("mcp_config_path", "mcp_servers"),
    ] {
        let refusal = refused(&daemon, key, "x").await;
        let details = json!({"key": key, "setting": setting});
        assert_eq!(refusal, (409, "restart_required".to_owned(), details));
    }
    for key in [
        "locale",
        "api_key",
        "auth_token",
        "",
        "providers.openai.api_key",
    ] {
        let (status, code, details) = refused(&daemon, key, "x").await;
        assert_eq!((status, code.as_str()), (400, "unknown_setting"), "{key}");
        assert_eq!(details["settable"].as_array().unwrap().len(), 6);
    }
}

#[tokio::test]
async fn invalid_value_is_refused_and_changes_nothing() {
    let daemon = Setup::settings(providers).start().await;
    let long = "x".repeat(300);
    for (key, value) in [
        ("model", "a\nb"),
        ("model", long.as_str()),
        ("reasoning_effort", "very high"),
        ("reasoning_effort", long.as_str()),
        ("default_mode", "sail"),
        ("allow_shell", "maybe"),
    ] {
        let (status, code, details) = refused(&daemon, key, value).await;
        assert_eq!((status, code.as_str()), (422, "invalid_field"), "{key}");
        assert_eq!(details["field"], "/value", "{key}");
    }
    // A setting of one client does not disable approvals for threads of other clients.
    for word in ["yolo", "4", "bypassPermissions"] {
        assert_eq!(refused(&daemon, "default_mode", word).await.0, 422);
    }
    let made = thread(&daemon).await;
    assert_eq!(
        (&made["model"], &made["mode"]),
        (&json!("demo-model"), &json!("agent"))
    );
}

#[tokio::test]
async fn providers_are_listed_without_keys_and_can_be_selected() {
    let daemon = Setup::settings(providers).start().await;
    let listed = daemon.client.get("/v1/providers").await.expect(200);
    assert_eq!(listed["current"], "demo");
    let ids: Vec<_> = listed["providers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| text(&it["id"]))
        .collect();
    assert_eq!(ids, ["far", "keyless", "demo"]);
    assert_eq!(listed["providers"][0]["env_vars"], json!(["FAR_KEY"]));
    let models = daemon
        .client
        .get("/v1/providers/far/models")
        .await
        .expect(200);
    assert_eq!(
        models,
        json!({"provider": "far", "models": [{"id": "far-usual"}]})
    );

    let switched = daemon
        .client
        .raw("POST", "/v1/providers/far/switch", None)
        .await
        .expect(200);
    assert_eq!(
        (
            &switched["provider"],
            &switched["model"],
            &switched["persisted"]
        ),
        (&json!("far"), &json!("far/far-usual"), &json!(true))
    );
    let listed = daemon.client.get("/v1/providers").await.expect(200);
    assert_eq!(
        (&listed["current"], &listed["providers"][0]["default_model"]),
        (&json!("far"), &json!("far-usual"))
    );
    let made = thread(&daemon).await;
    assert_eq!(
        (&made["model"], &made["model_provider"]),
        (&json!("far/far-usual"), &json!("far"))
    );
    daemon
        .say(&format!("/v1/threads/{}", text(&made["id"])), "hello")
        .await;
    assert_eq!(
        daemon.model.requests().last().unwrap().config.model,
        "other-model"
    );

    // A model name without a provider refers to the current provider.
    assert_eq!(
        set(&daemon, "model", "far-other").await["value"],
        "far/far-other"
    );
    let made = thread(&daemon).await;
    daemon
        .say(&format!("/v1/threads/{}", text(&made["id"])), "hello")
        .await;
    assert_eq!(
        daemon.model.requests().last().unwrap().config.model,
        "far-other"
    );

    let body = json!({"model": "  "});
    let switched = daemon
        .client
        .post("/v1/providers/demo/switch", body)
        .await
        .expect(200);
    assert_eq!(switched["model"], "demo-model");
    let switched = daemon
        .client
        .post("/v1/providers/far/switch", json!({"model": "big"}))
        .await
        .expect(200);
    assert_eq!(switched["model"], "far/big");
    assert_eq!(set(&daemon, "provider", "demo").await["value"], "demo");
    assert_eq!(thread(&daemon).await["model"], "demo-model");
}

#[tokio::test]
async fn unknown_provider_or_one_without_key_is_refused() {
    let daemon = Setup::settings(providers).start().await;
    for (path, code) in [
        ("/v1/providers/unknown/switch", "unknown_provider"),
        ("/v1/providers/keyless/switch", "provider_unusable"),
    ] {
        let reply = daemon.client.post(path, json!({})).await;
        assert_eq!(reply.code(), code);
        assert!(!reply.json().to_string().contains("not found"));
    }
    let reply = daemon.client.get("/v1/providers/unknown/models").await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (400, "unknown_provider")
    );
    assert_eq!(refused(&daemon, "provider", "keyless").await.0, 409);
    assert_eq!(thread(&daemon).await["model"], "demo-model");
}

/// A reloader with a scripted result.
#[derive(Debug, Default)]
struct Pages(Mutex<Vec<Result<Reloaded, String>>>);

#[async_trait]
impl Reload for Pages {
    async fn reload(&self) -> Result<Reloaded, String> {
        self.0.lock().unwrap().remove(0)
    }
}

#[tokio::test]
async fn reload_applies_a_valid_configuration_and_ignores_an_invalid_one() {
    let models = |chosen: Option<&str>| Models {
        default: "demo-model".to_owned(),
        provider: Some("demo".to_owned()),
        selected: chosen.map(str::to_owned),
        ..Models::default()
    };
    let page = |chosen: Option<&str>| Reloaded {
        models: models(chosen),
        applied: vec!["model".to_owned()],
        needs_restart: vec!["shell.sandbox".to_owned()],
        ..Reloaded::default()
    };
    let pages = Pages(Mutex::new(vec![
        Ok(page(Some("second"))),
        Err("windlass.toml, line 3: unknown key `modle`".to_owned()),
        Ok(page(Some("third"))),
        Ok(Reloaded {
            models: Models {
                unknown: UnknownModels::Refuse,
                ..models(None)
            },
            ..Reloaded::default()
        }),
        Ok(page(Some("third"))),
        Ok(page(None)),
    ]));
    let setup = Setup::settings(|settings| settings.config.reload = Some(Arc::new(pages)));
    let daemon = setup.start().await;
    let reload = || async { daemon.client.raw("POST", "/v1/config/reload", None).await };
    let reloaded = reload().await.expect(200);
    assert_eq!(reloaded["needs_restart"], json!(["shell.sandbox"]));
    assert_eq!(thread(&daemon).await["model"], "second");
    let reply = reload().await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (400, "config_invalid")
    );
    assert!(
        reply.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("line 3")
    );
    assert_eq!(thread(&daemon).await["model"], "second");
    // A choice made over the API is preserved: clients reload the file after each choice.
    set(&daemon, "model", "mine").await;
    reload().await.expect(200);
    assert_eq!(thread(&daemon).await["model"], "mine");
    // The choice is discarded if the operator has forbidden the model.
    reload().await.expect(200);
    assert_eq!(thread(&daemon).await["model"], "demo-model");
    assert_eq!(refused(&daemon, "model", "mine").await.0, 422);
    reload().await.expect(200);
    set(&daemon, "model", "").await;
    assert_eq!(thread(&daemon).await["model"], "third");
    reload().await.expect(200);
    assert_eq!(thread(&daemon).await["model"], "demo-model");
}

#[tokio::test]
async fn only_an_admin_changes_settings() {
    let home = tempfile::tempdir().unwrap();
    let book = Arc::new(TokenFile::new(home.path()));
    let stored = Arc::clone(&book);
    let setup = Setup::settings(move |settings| {
        settings.access = Access::Tokens {
            operator: None,
            stored,
        };
        providers(settings);
    });
    let daemon = setup.start().await;
    let client_with = |scope: TokenScope| Client {
        token: Some(book.create(scope, None).unwrap().1),
        ..daemon.client.clone()
    };
    let agent = client_with(TokenScope::Agent("a".to_owned()));
    let (client, admin) = (
        client_with(TokenScope::Client),
        client_with(TokenScope::Admin),
    );
    let changes = [
        (
            "/v1/config",
            json!({"key": "allow_shell", "value": "true", "persist": true}),
        ),
        ("/v1/config/reload", json!({})),
        ("/v1/providers/far/switch", json!({})),
        ("/v1/skills/x", json!({"enabled": false})),
    ];
    for (path, body) in changes {
        for refused in [&agent, &client] {
            assert_eq!(refused.post(path, body.clone()).await.status, 403, "{path}");
        }
        assert_ne!(admin.post(path, body).await.status, 403, "{path}");
    }
    for path in [
        "/v1/config",
        "/v1/providers",
        "/v1/skills",
        "/v1/apps/mcp/servers",
    ] {
        assert_eq!(agent.get(path).await.status, 403, "{path}");
        client.get(path).await.expect(200);
    }
}
