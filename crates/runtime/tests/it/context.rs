//! R30 to R35: records, layers, capabilities, models.

use std::sync::Arc;

use serde_json::json;
use windlass_core::capabilities::{AgentCapabilityConfig, MountPoint, SkillContribution};
use windlass_core::error::AgentLoopError;
use windlass_core::harness::HarnessStatus;
use windlass_core::in_memory::InMemoryLlmProviderStore;
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::message::{ContentPart, Controls, InputMessage, MessageRole};
use windlass_core::message_filter::{MessageFilter, MessageFilterProvider, MessageQuery};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session_file::InitialFile;
use windlass_core::tools::{ToolDefinition, ToolExecutionResult};
use windlass_core::typed_id::{EventId, HarnessId, ModelId};
use windlass_runtime::{
    HarnessBuilder, RuntimeBackends, RuntimeHostAdapter, SessionBuilder, StopReason,
};

use crate::support::{
    Bundle, ScriptedCall, ScriptedModel, Setup, call, directory, scripted_model, tool,
};

fn file(path: &str, content: &str) -> InitialFile {
    InitialFile {
        path: path.to_owned(),
        content: content.to_owned(),
        encoding: "text".to_owned(),
        is_readonly: false,
    }
}

#[tokio::test]
async fn r30_a_harness_inherits_the_whole_chain() {
    let hello = tool("hello", |_, _| async {
        ToolExecutionResult::success("hello")
    });
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "hello", json!({}))])])
        .build()
        .await;
    let bundle = Bundle {
        prompt: Some("Say hello.".into()),
        ..Bundle::new("hello").tool(&hello)
    };
    let runtime = Setup::of(&fixture.model)
        .builder()
        .capability(bundle)
        .harness(
            HarnessBuilder::new("root", "Root.")
                .id(HarnessId::from_seed(1))
                .capability("hello")
                .initial_file(file("/who", "root"))
                .initial_file(file("/root", "root"))
                .network_access(NetworkAccessList::allow_only(["a.com", "b.com"]))
                .build(),
        )
        .harness(
            HarnessBuilder::new("leaf", "Leaf.")
                .id(HarnessId::from_seed(2))
                .parent_harness_id(HarnessId::from_seed(1))
                .initial_file(file("/who", "leaf"))
                .network_access(NetworkAccessList::allow_only(["b.com", "c.com"]))
                .build(),
        )
        .build()
        .await
        .unwrap();
    let session = SessionBuilder::new(HarnessId::from_seed(2)).build();
    let id = session.id;
    runtime.add_session(session).await.unwrap();
    let context = runtime.load_context(id).await.unwrap();
    let names: Vec<_> = context
        .harness_chain
        .iter()
        .map(|harness| harness.name.as_str())
        .collect();
    assert_eq!(names, ["root", "leaf"]);
    assert_eq!(
        context.runtime_agent.system_prompt,
        "<capability id=\"hello\">\nSay hello.\n</capability>\n\n<system-prompt>\nRoot.\n\nLeaf.\n</system-prompt>"
    );
    #[cfg(feature = "url-rules")]
    assert_eq!(
        context.runtime_agent.network_access.unwrap().allowed,
        ["b.com"]
    );
    for (path, content) in [("/who", "leaf"), ("/root", "root")] {
        let read = runtime.read_file(id, path).await.unwrap().unwrap();
        assert_eq!(read.content.as_deref(), Some(content));
    }
    assert!(runtime.run_text_turn(id, "hi").await.unwrap().success);
    assert_eq!(hello.runs(), 1);
    let sent = &fixture.model.requests()[0];
    assert_eq!(
        sent.config
            .tools
            .iter()
            .map(ToolDefinition::name)
            .collect::<Vec<_>>(),
        ["hello"]
    );
}

#[tokio::test]
async fn r30_a_missing_parent_or_a_cycle_is_a_configuration_error_that_names_it() {
    let (a, b) = (HarnessId::from_seed(1), HarnessId::from_seed(2));
    let harness = |id, parent| {
        HarnessBuilder::new("h", "")
            .id(id)
            .parent_harness_id(parent)
            .build()
    };
    for harnesses in [vec![harness(a, b)], vec![harness(a, b), harness(b, a)]] {
        let builder = Setup::new([])
            .builder()
            .session(SessionBuilder::new(a).build());
        let builder = harnesses
            .into_iter()
            .fold(builder, |builder, harness| builder.harness(harness));
        match builder.build().await {
            Err(AgentLoopError::Configuration(text)) => {
                assert!(
                    text.contains(&a.to_string()) || text.contains(&b.to_string()),
                    "{text}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    // The same at run time: the session is refused, and the runtime continues.
    let fixture = Setup::new([]).build().await;
    fixture.runtime.add_harness(harness(a, b)).await.unwrap();
    let orphan = SessionBuilder::new(a).build();
    let id = orphan.id;
    assert!(matches!(
        fixture.runtime.add_session(orphan).await,
        Err(AgentLoopError::Configuration(_))
    ));
    assert!(matches!(
        fixture.runtime.session(id).await,
        Err(AgentLoopError::SessionNotFound(_))
    ));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r30_an_archived_harness_has_no_turns() {
    let fixture = Setup::new([]).build().await;
    let harness = HarnessBuilder::new("old", "")
        .status(HarnessStatus::Archived)
        .build();
    let session = SessionBuilder::new(harness.id).build();
    let id = session.id;
    fixture.runtime.add_harness(harness).await.unwrap();
    fixture.runtime.add_session(session).await.unwrap();
    let refused = fixture.runtime.run_text_turn(id, "hi").await.unwrap_err();
    assert!(
        matches!(&refused, AgentLoopError::Configuration(text) if text.contains("archived")),
        "{refused}"
    );
    assert!(fixture.runtime.events_for(id).await.unwrap().is_empty());
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r31_mounts_and_skills_exist_from_the_first_turn() {
    let skill = SkillContribution {
        name: "brew".into(),
        description: "Makes tea.".into(),
        instructions: "Boil water.".into(),
        files: vec![("notes.md".to_owned(), "Hot.".to_owned())]
            .into_iter()
            .collect(),
    };
    let bundle = Bundle {
        mounts: vec![MountPoint::readonly(
            "/docs",
            directory(&[("a.txt", "A")]),
            "docs",
        )],
        skills: vec![skill],
        ..Bundle::new("docs")
    };
    let fixture = Setup::new([]).bundle(&bundle).build().await;
    let read = |path: &'static str| {
        let fixture = fixture.clone();
        async move {
            let file = fixture
                .runtime
                .read_file(fixture.session, path)
                .await
                .unwrap();
            file.unwrap_or_else(|| panic!("{path}")).content.unwrap()
        }
    };
    assert_eq!(read("/docs/a.txt").await, "A");
    assert!(
        read("/.agents/skills/brew/SKILL.md")
            .await
            .contains("Boil water.")
    );
    assert_eq!(read("/.agents/skills/brew/notes.md").await, "Hot.");
    let files = fixture.runtime.file_store();
    for path in ["/docs/a.txt", "/.agents/skills/brew/SKILL.md"] {
        let refused = files
            .write_file(fixture.session, path, "mine", "text")
            .await
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("Tool execution error: file is read-only: {path}")
        );
    }
    fixture.assert_usable().await;
}

#[cfg(feature = "real-disk")]
#[tokio::test]
async fn r31_mounts_are_written_to_a_disk_store() {
    let root = tempfile::tempdir().unwrap();
    let files = Arc::new(windlass_runtime::RealDiskFileStore::new(root.path()).unwrap());
    let write = tool("write", |_, context| async move {
        let files = context.file_store.clone().unwrap();
        match files
            .write_file(context.session_id, "/out/b.txt", "B", "text")
            .await
        {
            Ok(_) => ToolExecutionResult::success("written"),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    });
    let bundle = Bundle {
        mounts: vec![MountPoint::readonly(
            "/docs",
            directory(&[("a.txt", "A")]),
            "docs",
        )],
        ..Bundle::new("docs").tool(&write)
    };
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "write", json!({}))])])
        .bundle(&bundle)
        .backends(RuntimeBackends::in_memory().with_file_system(files))
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    assert_eq!(
        std::fs::read_to_string(root.path().join("docs/a.txt")).unwrap(),
        "A"
    );
    assert_eq!(
        std::fs::read_to_string(root.path().join("out/b.txt")).unwrap(),
        "B"
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r32_unresolvable_capability_is_a_configuration_error_at_build() {
    let cycle = || {
        let a = Bundle {
            dependencies: vec!["b"],
            ..Bundle::new("a")
        };
        let b = Bundle {
            dependencies: vec!["a"],
            ..Bundle::new("b")
        };
        Setup::new([]).bundle(&a).bundle(&b)
    };
    let refusing = || {
        let bundle = Bundle {
            refuses: Some("speed"),
            ..Bundle::new("strict")
        };
        let config = AgentCapabilityConfig::with_config("strict", json!({"speed": 9}));
        Setup::new([])
            .bundle(&bundle)
            .session(|session| session.session_capability(config))
    };
    let unknown = || Setup::new([]).session(|session| session.with_capability("ghost"));
    for (setup, named) in [
        (unknown(), "ghost"),
        (cycle(), "`a`"),
        (refusing(), "strict"),
    ] {
        match setup.try_build().await {
            Err(AgentLoopError::Configuration(text)) => assert!(text.contains(named), "{text}"),
            Err(other) => panic!("{named}: {other}"),
            Ok(_) => panic!("{named} was taken"),
        }
    }
    // The same at run time.
    let fixture = Setup::new([]).build().await;
    let harness = fixture
        .runtime
        .session(fixture.session)
        .await
        .unwrap()
        .harness_id;
    let session = SessionBuilder::new(harness).capability("ghost").build();
    let refused = fixture.runtime.add_session(session).await.unwrap_err();
    assert!(
        matches!(&refused, AgentLoopError::Configuration(text) if text.contains("ghost")),
        "{refused}"
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r33_an_unknown_model_id_is_named_and_never_replaced() {
    let unknown = ModelId::from_seed(404);
    let fixture = Setup::new([]).build().await;
    let input = InputMessage {
        controls: Some(Controls {
            model_id: Some(unknown),
            ..Controls::default()
        }),
        ..InputMessage::user("hi")
    };
    let refused = fixture
        .runtime
        .run_turn(fixture.session, input)
        .await
        .unwrap_err();
    assert_eq!(
        refused.model_not_available_id(),
        Some(unknown.to_string().as_str())
    );
    assert_eq!(fixture.model.calls(), 0);
    assert!(fixture.events().await.is_empty());
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r33_the_last_layer_that_names_a_model_wins() {
    let models = Arc::new(InMemoryLlmProviderStore::new());
    for n in 1..4 {
        let model = ModelWithProvider {
            model: format!("m{n}"),
            ..scripted_model()
        };
        models.add_model(ModelId::from_seed(n), model).await;
    }
    let fixture = Setup::new([])
        .backends(RuntimeBackends::in_memory().with_provider_store(models))
        .session(|session| {
            session
                .harness_default_model_id(ModelId::from_seed(1))
                .session_model_id(ModelId::from_seed(2))
        })
        .build()
        .await;
    fixture.run("by session").await;
    let controls = Some(Controls {
        model_id: Some(ModelId::from_seed(3)),
        ..Controls::default()
    });
    let input = InputMessage {
        controls,
        ..InputMessage::user("by input")
    };
    fixture
        .runtime
        .run_turn(fixture.session, input)
        .await
        .unwrap();
    fixture.run("by session again").await;
    let used: Vec<_> = fixture
        .model
        .requests()
        .iter()
        .map(|request| request.config.model.clone())
        .collect();
    assert_eq!(used, ["m2", "m3", "m2"]);
}

#[tokio::test]
async fn r34_every_filter_is_honoured_by_the_messages_of_a_session() {
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("c", "unknown", json!({}))]),
        ScriptedCall::answer("the end"),
    ])
    .build()
    .await;
    fixture.run("the start").await;
    let messages = fixture.messages().await;
    let id = |n: usize| EventId::from_uuid(messages[n].id.uuid());
    let store = fixture.runtime.message_store();
    let count = |filter| {
        let query = MessageQuery::new(fixture.session).with_filter(filter);
        let store = Arc::clone(&store);
        async move { store.load_filtered(query).await.unwrap().len() }
    };
    let late = messages[0].created_at + chrono::TimeDelta::days(1);
    assert_eq!(messages.len(), 4);
    assert_eq!(
        count(MessageFilter::TimeRange {
            from: Some(late),
            to: None
        })
        .await,
        0
    );
    assert_eq!(
        count(MessageFilter::TimeRange {
            from: None,
            to: Some(late)
        })
        .await,
        4
    );
    assert_eq!(
        count(MessageFilter::EventTypes(vec!["input.message".into()])).await,
        1
    );
    assert_eq!(
        count(MessageFilter::EventTypes(vec!["tool.completed".into()])).await,
        1
    );
    assert_eq!(count(MessageFilter::ToolName("unknown".into())).await, 1);
    assert_eq!(count(MessageFilter::Search("THE".into())).await, 2);
    assert_eq!(
        count(MessageFilter::ExcludeIds(vec![id(0), id(1)])).await,
        2
    );
    assert_eq!(count(MessageFilter::IncludeIds(vec![id(3)])).await, 1);
    assert_eq!(
        count(MessageFilter::Custom(Arc::new(
            |message| message.role == MessageRole::Agent
        )))
        .await,
        2
    );
}

#[tokio::test]
async fn r34_a_filter_of_a_capability_changes_what_the_model_sees_and_nothing_else() {
    struct HideSecrets;
    impl MessageFilterProvider for HideSecrets {
        fn apply_filters(&self, query: &mut MessageQuery, _: &serde_json::Value) {
            query
                .filters
                .push(MessageFilter::Custom(Arc::new(|message| {
                    !message.text().is_some_and(|text| text.contains("secret"))
                })));
        }
    }
    let bundle = Bundle {
        filter: Some(Arc::new(HideSecrets)),
        ..Bundle::new("hide")
    };
    let fixture = Setup::new([]).bundle(&bundle).build().await;
    fixture.run("a secret").await;
    fixture.run("something else").await;
    assert_eq!(
        fixture.model.sent(1),
        ["Assistant: ok", "User: something else"]
    );
    assert_eq!(fixture.messages().await.len(), 4);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r35_the_status_of_a_session_is_written_as_it_is_printed() {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "ask", json!({}))])])
        .session(|session| session.agent_tool(ask))
        .build()
        .await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let session = fixture.runtime.session(fixture.session).await.unwrap();
        let written = serde_json::to_value(&session).unwrap()["status"].clone();
        assert_eq!(written, session.status.to_string());
        seen.push(written);
        assert_ne!(
            fixture
                .try_run("go")
                .await
                .map(|turn| turn.stop_reason)
                .ok(),
            Some(StopReason::Completed)
        );
    }
    assert_eq!(seen, ["started", "waiting_for_tool_results"]);
}

#[tokio::test]
async fn locale_of_the_input_overrides_the_sessions() {
    let fixture = Setup::new([])
        .session(|session| session.locale("de-DE"))
        .build()
        .await;
    fixture.run("hallo").await;
    let controls = Some(Controls {
        locale: Some("fr-FR".into()),
        ..Controls::default()
    });
    let input = InputMessage {
        controls,
        content: vec![ContentPart::text("salut")],
        ..InputMessage::user("")
    };
    fixture
        .runtime
        .run_turn(fixture.session, input)
        .await
        .unwrap();
    let prompts: Vec<_> = fixture
        .model
        .requests()
        .iter()
        .map(|request| request.system_prompt.clone())
        .collect();
    assert!(
        prompts[0].starts_with("<locale preference=\"de-DE\">"),
        "{}",
        prompts[0]
    );
    assert!(
        prompts[1].starts_with("<locale preference=\"fr-FR\">"),
        "{}",
        prompts[1]
    );
}

#[tokio::test]
async fn a_model_without_driver_or_key_is_named_and_the_session_stays_usable() {
    let models = Arc::new(InMemoryLlmProviderStore::new());
    let other = |provider_type| ModelWithProvider {
        provider_type,
        ..scripted_model()
    };
    models
        .add_model(ModelId::from_seed(1), other(LlmProviderType::Gemini))
        .await;
    models
        .add_model(ModelId::from_seed(2), other(LlmProviderType::Anthropic))
        .await;
    let (model, keyed) = (ScriptedModel::default(), ScriptedModel::default());
    let mut drivers = DriverRegistry::new();
    model.register(&mut drivers, ProviderType::LlmSim);
    keyed.register(&mut drivers, ProviderType::Anthropic);
    drivers.register(ProviderType::OpenAI, |_, _| {
        panic!("scripted panic of a factory")
    });
    models
        .add_model(
            ModelId::from_seed(3),
            ModelWithProvider {
                api_key: Some("k".into()),
                ..other(LlmProviderType::Openai)
            },
        )
        .await;
    let setup = Setup::of(&model);
    let runtime = setup
        .backends(RuntimeBackends::in_memory().with_provider_store(models))
        .builder()
        .driver_registry(drivers)
        .build()
        .await
        .unwrap();
    let session = runtime.default_session_id().unwrap();
    for (n, named) in [(1, "gemini"), (2, "anthropic"), (3, "openai")] {
        let controls = Some(Controls {
            model_id: Some(ModelId::from_seed(n)),
            ..Controls::default()
        });
        let input = InputMessage {
            controls,
            ..InputMessage::user("hi")
        };
        let refused = runtime.run_turn(session, input).await.unwrap_err();
        match (n, &refused) {
            (1, AgentLoopError::DriverNotRegistered(_))
            | (2, AgentLoopError::Llm(_))
            | (3, AgentLoopError::Configuration(_)) => {}
            _ => panic!("{refused:?}"),
        }
        assert!(refused.to_string().contains(named), "{refused}");
        assert!(runtime.run_text_turn(session, "hi").await.unwrap().success);
    }
    assert_eq!(keyed.calls(), 0);
}
