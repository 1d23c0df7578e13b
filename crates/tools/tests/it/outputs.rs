//! Outputs that are too long to show.

use std::fs;

use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;
use windlass_tools::{
    Confinement, FilesCapability, OutputLimits, Outputs, Policy, ShellCapability, ShellSettings,
};

use crate::support::{Place, ways};

/// A conversation in a workspace with stored outputs.
pub(crate) struct Talk {
    pub(crate) place: Place,
    pub(crate) session_id: SessionId,
    shell: ShellCapability,
}

impl Talk {
    pub(crate) fn new(limits: OutputLimits) -> Self {
        Self::confined(Confinement::Unconfined, limits, |_| {})
    }

    pub(crate) fn confined(
        way: Confinement,
        limits: OutputLimits,
        set: impl FnOnce(&mut ShellSettings),
    ) -> Self {
        let mut place = Place::confined(way, Policy::default());
        set(&mut place.settings);
        let kept = Outputs::open(place.outside().join("kept"), limits).unwrap();
        place.environments.hide(place.outside());
        place.environments.keep_outputs(kept);
        Self {
            shell: ShellCapability::new(place.environments.clone(), place.settings.clone()),
            place,
            session_id: SessionId::new(),
        }
    }

    /// Returns the same conversation after a restart of the host.
    pub(crate) fn restarted(self) -> Self {
        let kept = self.place.outside().join("kept");
        let kept = Outputs::open(kept, OutputLimits::default()).unwrap();
        self.place.environments.keep_outputs(kept);
        let environments = self.place.environments.clone();
        Self {
            shell: ShellCapability::new(environments, self.place.settings.clone()),
            ..self
        }
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        self.call_of(self.session_id, name, arguments).await
    }

    pub(crate) async fn call_of(
        &self,
        session_id: SessionId,
        name: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        let never = json!({ "approval": "never" });
        let mut tools = self.shell.tools_with_config(&never);
        tools.extend(
            FilesCapability::new(self.place.environments.clone()).tools_with_config(&never),
        );
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        let context = ToolContext::new(session_id);
        match tool.execute_with_context(arguments, &context).await {
            ToolExecutionResult::Success(value) => Ok(value),
            ToolExecutionResult::ToolError(told) => Err(told),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn shell(&self, command: &str) -> Value {
        let arguments = json!({ "command": command });
        self.call("shell", arguments).await.unwrap()
    }

    pub(crate) async fn remove(&self, session_id: SessionId) {
        self.shell.session_removed(session_id).await;
        let files = FilesCapability::new(self.place.environments.clone());
        files.session_removed(session_id).await;
    }

    /// Returns the size of the store in bytes.
    fn stored(&self) -> u64 {
        let sessions = fs::read_dir(self.place.outside().join("kept")).unwrap();
        let files = sessions.flat_map(|session| fs::read_dir(session.unwrap().path()).unwrap());
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }
}

/// Returns the path in a result.
pub(crate) fn path_in(text: &str) -> String {
    let (_, rest) = text
        .split_once("`output:")
        .unwrap_or_else(|| panic!("{text}"));
    let (id, _) = rest.split_once('`').unwrap();
    format!("output:{id}")
}

const LONG: &str = "for i in $(seq 1 20000); do echo line $i; done";

#[tokio::test]
async fn a_long_output_is_kept_whole_and_can_be_read_and_searched() {
    for way in ways() {
        let talk = Talk::confined(way, OutputLimits::default(), |_| {});
        let ran = talk.shell(LONG).await;
        let output = ran["output"].as_str().unwrap();
        assert!(
            output.starts_with("line 1\n") && output.ends_with("line 20000\n"),
            "{way:?}"
        );
        assert!(output.contains("bytes left out"), "{way:?}");
        let path = path_in(ran["remark"].as_str().unwrap());
        let lines = json!({ "path": path, "start_line": 9_999, "lines": 2 });
        let read = talk.call("read", lines.clone()).await.unwrap();
        assert_eq!(read["content"], "line 9999\nline 10000\n", "{way:?}");
        assert_eq!(
            (&read["line_count"], &read["path"]),
            (&json!(20_000), &json!(path))
        );
        let grep = json!({ "path": path, "pattern": "^line 1234.$" });
        let found = talk.call("grep", grep).await.unwrap();
        assert_eq!(found["matches"].as_array().unwrap().len(), 10, "{found}");
        // The output survives a restart, is invisible to another session, and is removed completely.
        let talk = talk.restarted();
        assert_eq!(talk.call("read", lines.clone()).await.unwrap(), read);
        let told = talk.call_of(SessionId::new(), "read", lines.clone()).await;
        assert!(told.unwrap_err().contains("there is no output:"), "{way:?}");
        talk.remove(talk.session_id).await;
        assert!(talk.call("read", lines).await.is_err());
        assert_eq!(talk.stored(), 0, "{way:?}");
    }
}

#[tokio::test]
async fn a_short_output_is_not_kept_and_names_no_path() {
    let talk = Talk::new(OutputLimits::default());
    let ran = talk.shell("echo short").await;
    assert_eq!(ran["remark"], Value::Null);
    assert_eq!(talk.stored(), 0);
}

#[tokio::test]
async fn a_flood_fills_no_more_than_its_room_and_shows_its_end() {
    let limits = OutputLimits {
        bytes_each: 1024 * 1024,
        ..OutputLimits::default()
    };
    let talk = Talk::new(limits);
    let flood = json!({ "command": "echo first; yes flood | head -c 9000000; echo last" });
    let ran = talk.call("shell", flood).await.unwrap();
    let remark = ran["remark"].as_str().unwrap();
    assert!(
        remark.contains("its first 1048576 bytes and its end"),
        "{remark}"
    );
    let stored = talk.stored();
    assert!(stored > 1024 * 1024 && stored < 1200 * 1024, "{stored}");
    let path = path_in(remark);
    for (pattern, count) in [("^first$", 1), ("^last$", 1), ("bytes left out", 1)] {
        let found = talk
            .call("grep", json!({ "path": path, "pattern": pattern }))
            .await;
        let found = found.unwrap();
        assert_eq!(
            found["matches"].as_array().unwrap().len(),
            count,
            "{pattern}: {found}"
        );
    }
    // The result of a command that is stopped contains the path too.
    let endless = json!({ "command": "yes", "timeout_ms": 2_000 });
    let told = talk.call("shell", endless).await.unwrap_err();
    assert!(
        told.contains("did not end within 2000 ms"),
        "{}",
        &told[..100]
    );
    let read = talk
        .call("read", json!({ "path": path_in(&told), "lines": 1 }))
        .await;
    assert_eq!(read.unwrap()["content"], "y\n");
}

#[tokio::test]
async fn many_outputs_make_room_for_each_other() {
    let limits = OutputLimits {
        bytes_each: 1024 * 1024,
        bytes_all: 3 * 1024 * 1024,
        of_session: 200,
    };
    let talk = Talk::new(limits);
    let mut paths = Vec::new();
    for _ in 0..6 {
        let ran = talk.shell("yes flood | head -c 800000").await;
        paths.push(path_in(ran["remark"].as_str().unwrap()));
        assert!(talk.stored() <= 3 * 1024 * 1024, "{}", talk.stored());
    }
    assert!(
        talk.call("read", json!({ "path": paths[0] }))
            .await
            .is_err()
    );
    assert!(talk.call("read", json!({ "path": paths[5] })).await.is_ok());
    let few = OutputLimits {
        of_session: 2,
        ..OutputLimits::default()
    };
    let talk = Talk::new(few);
    for _ in 0..4 {
        talk.shell("yes flood | head -c 100000").await;
    }
    assert_eq!(talk.stored(), 200_000);
}

#[tokio::test]
async fn names_lead_nowhere_else_and_commands_do_not_see_the_store() {
    let talk = Talk::new(OutputLimits::default());
    let ran = talk.shell(LONG).await;
    let path = path_in(ran["remark"].as_str().unwrap());
    let kept = talk.place.outside();
    fs::write(kept.join("kept/secret"), "s").unwrap();
    let of_session = talk.session_id.uuid().simple().to_string();
    fs::write(kept.join("kept").join(of_session).join("ABCDEF012345"), "s").unwrap();
    for name in [
        "output:../secret",
        "output:",
        "output:/etc/passwd",
        "output:..",
        "output:0123456789ag",
        &format!("{path}.json"),
        // Such a file exists, but it is not a valid ID.
        "output:ABCDEF012345",
    ] {
        for tool in ["read", "grep"] {
            let arguments = json!({ "path": name, "pattern": "." });
            let told = talk.call(tool, arguments).await.unwrap_err();
            assert!(
                told.contains("there is no output:"),
                "{tool} {name}: {told}"
            );
        }
    }
    let hidden = json!({ "path": kept.join("kept/secret") });
    assert!(talk.call("read", hidden).await.is_err());
    for way in crate::support::sandboxes() {
        let talk = Talk::confined(way, OutputLimits::default(), |_| {});
        talk.shell(LONG).await;
        let look = format!("ls -R '{}'", talk.place.outside().display());
        let seen = talk.shell(&look).await;
        assert!(
            !seen["output"].as_str().unwrap().contains("kept"),
            "{way:?}: {seen}"
        );
    }
}
