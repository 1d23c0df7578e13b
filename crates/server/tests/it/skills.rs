//! Skills of the workspace and MCP servers, over the API.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Setup, TestDaemon, soon, text};

fn write_skill(workspace: &Path, root: &str, name: &str) {
    let folder = workspace.join(root).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let body = format!("---\nname: {name}\ndescription: About {name}\n---\nDo {name}.");
    std::fs::write(folder.join("SKILL.md"), body).unwrap();
}

fn setup(data: &Path, workspace: &Path) -> Setup {
    let root = workspace.to_owned();
    Setup {
        data: Some(data.join("store")),
        has_tools: true,
        ..Setup::settings(move |settings| {
            settings.workspace = root;
            settings.config.reads_repository = true;
        })
    }
}

async fn enabled(daemon: &TestDaemon) -> Vec<(String, bool)> {
    let listed = daemon.client.get("/v1/skills").await.expect(200);
    let skills = listed["skills"].as_array().unwrap().iter();
    let pair = |skill: &Value| (text(&skill["name"]), skill["enabled"] == true);
    skills.map(pair).collect()
}

#[tokio::test]
async fn skills_are_listed_and_toggled_persistently() {
    let data = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    write_skill(workspace.path(), ".windlass/skills", "pdf");
    write_skill(workspace.path(), ".agents/skills", "sail");
    std::fs::create_dir_all(workspace.path().join(".agents/skills/broken")).unwrap();
    std::fs::write(
        workspace.path().join(".agents/skills/broken/SKILL.md"),
        "no header",
    )
    .unwrap();
    let daemon = setup(data.path(), workspace.path()).start().await;
    let listed = daemon.client.get("/v1/skills").await.expect(200);
    let root = workspace.path().canonicalize().unwrap();
    let path = root.join(".windlass/skills").display().to_string();
    assert_eq!(listed["directory"], path);
    assert_eq!(listed["directories"].as_array().unwrap().len(), 2);
    assert!(text(&listed["warnings"][0]).contains("broken"), "{listed}");
    assert_eq!(
        listed["skills"][0],
        json!({
            "name": "pdf", "description": "About pdf", "path": format!("{path}/pdf/SKILL.md"), "source": "native",
            "enabled": true, "is_bundled": false
        })
    );
    let switched = daemon
        .client
        .post("/v1/skills/sail", json!({"enabled": false}))
        .await;
    assert_eq!(
        switched.expect(200),
        json!({"name": "sail", "enabled": false})
    );
    let both = [("pdf".to_owned(), true), ("sail".to_owned(), false)];
    assert_eq!(enabled(&daemon).await, both);
    for name in ["nope", "broken", "..", "%2e%2e"] {
        let path = format!("/v1/skills/{name}");
        let reply = daemon.client.post(&path, json!({"enabled": false})).await;
        assert_eq!(reply.status, 404, "{name}");
    }
    let reply = daemon.client.post("/v1/skills/pdf", json!({})).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (422, "invalid_field")
    );
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;

    let daemon = setup(data.path(), workspace.path()).start().await;
    assert_eq!(enabled(&daemon).await, both);
    // A skill that no longer exists can be enabled again.
    std::fs::remove_dir_all(workspace.path().join(".agents/skills/sail")).unwrap();
    let switched = daemon
        .client
        .post("/v1/skills/sail", json!({"enabled": true}))
        .await;
    switched.expect(200);
    write_skill(workspace.path(), ".agents/skills", "sail");
    assert!(enabled(&daemon).await.iter().all(|(_, enabled)| *enabled));
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
}

#[tokio::test]
async fn disabled_repository_reading_reports_skills_as_off() {
    let setup = Setup::settings(|settings| settings.config.reads_repository = false);
    write_skill(setup.workspace.path(), ".windlass/skills", "pdf");
    let daemon = setup.start().await;
    assert_eq!(enabled(&daemon).await, [("pdf".to_owned(), false)]);
    let listed = daemon.client.get("/v1/skills").await.expect(200);
    assert!(
        text(&listed["warnings"][0]).contains("repository.instructions"),
        "{listed}"
    );
}

#[tokio::test]
async fn no_mcp_servers_means_no_mcp_tools() {
    let daemon = TestDaemon::start().await;
    let servers = daemon.client.get("/v1/apps/mcp/servers").await.expect(200);
    assert_eq!(servers, json!({"servers": []}));
    for query in ["", "?connect=true"] {
        let tools = daemon
            .client
            .get(&format!("/v1/apps/mcp/tools{query}"))
            .await
            .expect(200);
        assert_eq!(tools, json!({"tools": []}));
    }
    let reply = daemon.client.get("/v1/apps/mcp/tools?server=x").await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (404, "server_not_found")
    );
}
