//! Creating, listing and changing threads.

use serde_json::{Value, json};

use crate::support::{TestDaemon, text};

fn ids(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|line| text(&line["id"]))
        .collect()
}

#[tokio::test]
async fn r13_search_covers_all_threads_before_the_limit() {
    let daemon = TestDaemon::start().await;
    let old = daemon.thread(json!({"title": "The Needle"})).await;
    for _ in 0..5 {
        daemon.thread(json!({"title": "hay"})).await;
    }
    let found = daemon
        .client
        .get("/v1/threads/summary?limit=1&search=needle")
        .await
        .expect(200);
    assert_eq!(ids(&found), [old.trim_start_matches("/v1/threads/")]);
    assert_eq!(
        ids(&daemon
            .client
            .get("/v1/threads/summary?limit=3")
            .await
            .expect(200))
        .len(),
        3
    );
}

#[tokio::test]
async fn r14_running_turn_has_the_same_status_everywhere() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let line = |list: &Value| list[0].clone();
    let before = line(&daemon.client.get("/v1/threads/summary").await.expect(200));
    assert_eq!(
        (&before["title"], &before["latest_turn_status"]),
        (&json!("New Thread"), &Value::Null)
    );
    daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let during = line(&daemon.client.get("/v1/threads/summary").await.expect(200));
    assert_eq!(during["latest_turn_status"], "in_progress");
    assert_eq!(during["title"], "SLOW please");
    daemon.model.open();
}

#[tokio::test]
async fn archived_threads_are_listed_only_on_request() {
    let daemon = TestDaemon::start().await;
    let active = daemon.thread(json!({})).await;
    let archived = daemon.thread(json!({})).await;
    daemon
        .client
        .patch(&archived, json!({"archived": true}))
        .await
        .expect(200);
    let id = |path: &str| path.trim_start_matches("/v1/threads/").to_owned();
    let list = |query: &'static str| {
        let request = daemon.client.get(&format!("/v1/threads{query}"));
        async move { ids(&request.await.expect(200)) }
    };
    assert_eq!(list("").await, [id(&active)]);
    assert_eq!(
        list("?include_archived=true").await,
        [id(&archived), id(&active)]
    );
    assert_eq!(
        list("?include_archived=true&archived_only=true").await,
        [id(&archived)]
    );
    assert_eq!(
        list("?include_archived=true&limit=1").await,
        [id(&archived)]
    );
}

#[tokio::test]
async fn r17_item_kind_is_declared_by_its_tool() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"auto_approve": true})).await;
    daemon.say(&thread, "SHELL now").await;
    let detail = daemon.detail(&thread).await;
    assert_eq!(detail["items"][1]["kind"], "command_execution");
}

#[tokio::test]
async fn r18_item_contains_tool_input_and_output() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"auto_approve": true})).await;
    daemon.say(&thread, "SHELL now").await;
    let item = daemon.detail(&thread).await["items"][1].clone();
    assert_eq!(item["detail"], "hi\n");
    assert_eq!(
        item["metadata"]["tool"]["input"],
        json!({"command": "echo hi"})
    );
    assert_eq!(item["metadata"]["tool"]["provider_id"], "toolu_1");
}

#[tokio::test]
async fn r19_threads_and_one_shot_streams_have_the_same_default_model() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .client
        .post("/v1/threads", json!({}))
        .await
        .expect(201);
    let auto = daemon
        .client
        .post("/v1/threads", json!({"model": "auto"}))
        .await
        .expect(201);
    let mut stream = daemon
        .client
        .post_stream("/v1/stream", json!({"prompt": "hello"}))
        .await;
    let started = stream.next().await.unwrap();
    assert_eq!(thread["model"], "demo-model");
    assert_eq!(auto["model"], thread["model"]);
    assert_eq!(started.data["model"], thread["model"]);
    stream.rest().await;
}

#[tokio::test]
async fn patch_without_changes_creates_no_event() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"title": "T"})).await;
    let before = daemon.detail(&thread).await;
    daemon
        .client
        .patch(&thread, json!({"allow_shell": true, "title": "T"}))
        .await
        .expect(200);
    assert_eq!(
        daemon.detail(&thread).await["latest_seq"],
        before["latest_seq"]
    );
    let changed = daemon
        .client
        .patch(&thread, json!({"title": "", "mode": "2"}))
        .await
        .expect(200);
    assert_eq!(
        (changed.get("title"), &changed["mode"]),
        (None, &json!("plan"))
    );
    let mut events = daemon.events(&thread, 1).await;
    let event = events.next().await.unwrap();
    assert_eq!(event.event, "thread.updated");
    assert_eq!(
        event.data["payload"]["changes"],
        json!({"mode": "plan", "title": null})
    );
    assert_eq!(event.data["payload"]["thread"]["mode"], "plan");
}

#[tokio::test]
async fn usage_is_summed_by_the_requested_group() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "one").await;
    daemon.say(&thread, "two").await;
    let report = daemon
        .client
        .get("/v1/usage?group_by=thread")
        .await
        .expect(200);
    assert_eq!(
        (
            &report["totals"]["input_tokens"],
            &report["totals"]["turns"]
        ),
        (&json!(200), &json!(2))
    );
    assert_eq!(
        report["buckets"][0]["key"],
        thread.trim_start_matches("/v1/threads/")
    );
    assert_eq!(report["totals"]["cost_complete"], false);
    let later = daemon
        .client
        .get("/v1/usage?since=2999-01-01T00:00:00Z")
        .await
        .expect(200);
    assert_eq!(
        (&later["totals"]["turns"], &later["buckets"]),
        (&json!(0), &json!([]))
    );
    let by_model = daemon
        .client
        .get("/v1/usage?group_by=model")
        .await
        .expect(200);
    assert_eq!(by_model["buckets"][0]["key"], "demo-model");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn detail_contains_no_change_newer_than_its_seq() {
    let daemon = TestDaemon::start().await;
    let parent = daemon.thread(json!({})).await;
    for _ in 0..5 {
        daemon.say(&parent, "hello").await;
    }
    // The detail of a fork is slow, because it reads the parent too.
    let fork = daemon.client.post(&format!("{parent}/fork"), json!({}));
    let thread = format!("/v1/threads/{}", text(&fork.await.expect(201)["id"]));
    let (client, path) = (daemon.client.clone(), thread.clone());
    let changing = tokio::spawn(async move {
        for n in 1..=200 {
            let change = json!({ "title": n.to_string() });
            client.patch(&path, change).await.expect(200);
        }
    });
    let mut seen = Vec::new();
    while !changing.is_finished() {
        let detail = daemon.detail(&thread).await;
        let title = detail["thread"]["title"].clone();
        seen.push((detail["latest_seq"].as_u64().unwrap(), title));
    }
    changing.await.unwrap();
    let mut events = daemon.events(&thread, 0).await;
    let mut titles = vec![(0, json!(null))];
    while titles.last().unwrap().1 != "200" {
        let frame = events.next().await.unwrap();
        let title = frame.data["payload"]["thread"]["title"].clone();
        titles.push((frame.id.unwrap(), title));
    }
    for (seq, title) in seen {
        let at = titles.iter().rev().find(|(at, _)| *at <= seq).unwrap();
        assert_eq!(title, at.1, "the detail at {seq}");
    }
}

#[tokio::test]
async fn paged_list_contains_each_thread_once() {
    let daemon = TestDaemon::start().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        let thread = daemon.thread(json!({"title": "one of five"})).await;
        made.push(thread.trim_start_matches("/v1/threads/").to_owned());
    }
    daemon.thread(json!({"title": "another"})).await;
    made.reverse();
    for list in ["/v1/threads?limit=2", "/v1/threads/summary?limit=2"] {
        let list = format!("{list}&search=five");
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = daemon.client.get(&format!("{list}{next}")).await;
            let cursor = page.header("x-windlass-next-cursor");
            next = match cursor {
                Some(cursor) => format!("&cursor={cursor}"),
                None => String::new(),
            };
            let page = ids(&page.expect(200));
            assert!(page.len() <= 2);
            seen.extend(page);
            if next.is_empty() {
                break;
            }
        }
        // Only summaries are searched.
        if list.contains("summary") {
            assert_eq!(seen, made)
        } else {
            assert_eq!(seen[1..], made)
        }
    }
}

#[tokio::test]
async fn unknown_cursor_or_filter_is_refused() {
    let daemon = TestDaemon::start().await;
    let other = TestDaemon::start().await;
    for daemon in [&daemon, &other] {
        for _ in 0..3 {
            daemon.thread(json!({})).await;
        }
    }
    let cursor = |daemon: &TestDaemon| {
        let client = daemon.client.clone();
        async move {
            let page = client.get("/v1/threads?limit=1").await;
            text(&page.header("x-windlass-next-cursor").unwrap().into())
        }
    };
    let (own, foreign) = (cursor(&daemon).await, cursor(&other).await);
    let cut = &own[..own.len() - 1];
    let wrong = [
        format!("cursor={foreign}"),
        format!("cursor={cut}"),
        "cursor=nonsense".to_owned(),
        "cursor=%00%F0%9F%98%80".to_owned(),
        "state=asleep".to_owned(),
        "state=idle,".to_owned(),
        "limit=-1".to_owned(),
        "archived_only=maybe".to_owned(),
    ];
    for query in wrong {
        for list in ["/v1/threads", "/v1/threads/summary"] {
            let refused = daemon.client.get(&format!("{list}?{query}")).await;
            let found = (refused.status, refused.code());
            assert_eq!(found, (400, "invalid_query".to_owned()), "{query}");
        }
    }
    let page = daemon.client.get(&format!("/v1/threads?cursor={own}"));
    assert_eq!(ids(&page.await.expect(200)).len(), 2);
}

#[tokio::test]
async fn lists_and_metrics_show_the_current_status() {
    let daemon = TestDaemon::start().await;
    let idle = daemon.thread(json!({})).await;
    daemon.say(&idle, "hello").await;
    let waiting = daemon.thread(json!({})).await;
    let mut events = daemon.events(&waiting, 0).await;
    daemon.turn(&waiting, json!({"prompt": "SHELL now"})).await;
    events.until("approval.required").await;
    let running = daemon.thread(json!({})).await;
    daemon
        .turn(&running, json!({"prompt": "SLOW please"}))
        .await;
    for (state, threads) in [
        ("idle", vec![&idle]),
        ("running", vec![&running]),
        ("waiting", vec![&waiting]),
        ("waiting,running", vec![&running, &waiting]),
    ] {
        let list = daemon.client.get(&format!("/v1/threads?state={state}"));
        let threads: Vec<_> = threads
            .iter()
            .map(|path| path.trim_start_matches("/v1/threads/"))
            .collect();
        assert_eq!(ids(&list.await.expect(200)), threads, "{state}");
    }
    let figures = daemon.client.get("/metrics").await;
    let figures = String::from_utf8(figures.body.to_vec()).unwrap();
    for line in ["threads 3", "turns_open 2", "turns_waiting 1"] {
        let line = format!("windlass_{line}");
        assert!(figures.lines().any(|known| known == line), "{figures}");
    }
    daemon.model.open();
}

#[tokio::test]
async fn search_finds_a_thread_by_its_id() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/");
    let search = format!("/v1/threads/summary?search={}", id.to_uppercase());
    let found = daemon.client.get(&search).await.expect(200);
    assert_eq!(ids(&found), [id]);
}

#[tokio::test]
async fn invalid_value_error_describes_the_format() {
    let daemon = TestDaemon::start().await;
    for (path, expected) in [
        (
            "/v1/usage?since=yesterday",
            "since must be a time such as 2026-",
        ),
        (
            "/v1/usage?until=2026-01-31",
            "until must be a time such as 2026-",
        ),
        ("/v1/threads?limit=x", "limit must be a whole number"),
        (
            "/v1/threads?include_archived=x",
            "include_archived must be true or false",
        ),
    ] {
        let reply = daemon.client.get(path).await;
        assert_eq!(reply.code(), "invalid_query");
        let message = text(&reply.json()["error"]["message"]);
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn thread_previews_are_short() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let thread = daemon.thread(json!({"title": "ü".repeat(1_000)})).await;
    let long = "x".repeat(1_001);
    let field = |reply: &crate::support::Reply| {
        let field = text(&reply.json()["error"]["details"]["field"]);
        (reply.status, field)
    };
    for name in [
        "title",
        "task_id",
        "reasoning_effort",
        "model_provider",
        "model_provider_id",
        "model",
    ] {
        let mut body = json!({});
        body[name] = json!(long);
        let refused = (422, format!("/{name}"));
        assert_eq!(
            field(&client.post("/v1/threads", body.clone()).await),
            refused
        );
        if ["title", "reasoning_effort", "model"].contains(&name) {
            assert_eq!(field(&client.patch(&thread, body).await), refused);
        }
    }
    let fork = client.post(&format!("{thread}/fork"), json!({"model": long}));
    assert_eq!(field(&fork.await), (422, "/model".to_owned()));
    let list = client.get("/v1/threads").await.expect(200);
    assert_eq!(ids(&list).len(), 1);
}

#[tokio::test]
async fn large_list_truncates_long_prompts() {
    let daemon = TestDaemon::start().await;
    let prompt = "p".repeat(3 * 1024 * 1024);
    let mut threads = Vec::new();
    for _ in 0..3 {
        threads.push(daemon.thread(json!({ "system_prompt": prompt })).await);
    }
    let list = daemon.client.get("/v1/threads").await.expect(200);
    let shown = list.as_array().unwrap().iter();
    let lengths: Vec<_> = shown
        .map(|thread| text(&thread["system_prompt"]).chars().count())
        .collect();
    assert_eq!(lengths, [prompt.len(), prompt.len(), 201]);
    let whole = daemon.detail(&threads[0]).await;
    assert_eq!(whole["thread"]["system_prompt"], prompt);
}
