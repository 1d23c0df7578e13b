//! Tools with which the agent reads and changes its own session.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::{
    NoArguments, SessionTool, ToolFailure, boxed, fail, object, offered, reads, writes,
};
use crate::capabilities::Capability;
use crate::tools::{SideEffectClass, Tool, ToolHints};
use crate::traits::ToolContext;

const MAX_TITLE_CHARS: usize = 200;

/// Lets the agent read its session's fields and set its title.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionCapability;

impl Capability for SessionCapability {
    constants!(
        "session",
        "Session",
        "Reads the session's fields and sets its title.",
        "Session"
    );
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(GetSessionInfo), boxed(WriteSessionTitle)]
    }
}

struct GetSessionInfo;

#[async_trait]
impl SessionTool for GetSessionInfo {
    type Args = NoArguments;
    const NAME: &'static str = "get_session_info";
    const DESCRIPTION: &'static str = "Return the title, times, tags and agent of this session.";

    fn schema(&self) -> Value {
        object(json!({}), &[])
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, _: NoArguments, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let sessions = offered(&ctx.session_store, "session store")?;
        let Some(session) = sessions.get_session(ctx.session_id).await? else {
            return fail("this session is not in the store");
        };
        let agent = match (session.agent_id, &ctx.agent_store) {
            (Some(id), Some(agents)) => agents.get_agent(id).await?,
            _ => None,
        };
        Ok(json!({
            "session_id": session.id,
            "title": session.title,
            "status": session.status,
            "locale": session.locale,
            "tags": session.tags,
            "agent": agent.map(|agent| agent.name),
            "created_at": session.created_at,
            "updated_at": session.updated_at
        }))
    }
}

struct WriteSessionTitle;

#[derive(Deserialize)]
struct Title {
    title: String,
}

#[async_trait]
impl SessionTool for WriteSessionTitle {
    type Args = Title;
    const NAME: &'static str = "write_session_title";
    const DESCRIPTION: &'static str =
        "Set the title of this session: a few words about its subject.";

    fn schema(&self) -> Value {
        object(
            json!({ "title": { "type": "string", "minLength": 1, "maxLength": MAX_TITLE_CHARS } }),
            &["title"],
        )
    }
    fn hints(&self) -> ToolHints {
        writes("session", SideEffectClass::Idempotent)
    }
    async fn run(&self, args: Title, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let title = args.title.trim();
        if title.is_empty() {
            return fail("`title` must not be blank");
        }
        if title.chars().nth(MAX_TITLE_CHARS).is_some() {
            return fail(format!(
                "`title` may have {MAX_TITLE_CHARS} characters at most"
            ));
        }
        let sessions = offered(&ctx.session_mutator, "way to change the session")?;
        let session = sessions
            .update_session_title(ctx.session_id, title.to_owned())
            .await?;
        Ok(json!({ "title": session.title }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::testing::{THEN, call, odd_arguments};
    use super::*;
    use crate::error::Result as CoreResult;
    use crate::session::Session;
    use crate::traits::{SessionMutator, SessionStore};
    use crate::typed_id::SessionId;

    struct SingleSession(Mutex<Session>);

    #[async_trait]
    impl SessionStore for SingleSession {
        async fn get_session(&self, id: SessionId) -> CoreResult<Option<Session>> {
            let session = self.0.lock().unwrap().clone();
            Ok(Some(session).filter(|session| session.id == id))
        }
    }
    #[async_trait]
    impl SessionMutator for SingleSession {
        async fn update_session_title(&self, _: SessionId, title: String) -> CoreResult<Session> {
            let mut session = self.0.lock().unwrap();
            session.title = Some(title);
            Ok(session.clone())
        }
    }

    fn context() -> ToolContext {
        let session = json!({
            "id": SessionId::new(), "harness_id": crate::typed_id::HarnessId::new(),
            "created_at": THEN, "updated_at": THEN, "tags": ["a"]
        });
        let session: Session = serde_json::from_value(session).unwrap();
        let id = session.id;
        let store = Arc::new(SingleSession(Mutex::new(session)));
        ToolContext::new(id)
            .with_session_store(store.clone())
            .with_session_mutator(store)
    }

    #[tokio::test]
    async fn title_is_set_and_read() {
        let ctx = context();
        let args = json!({"title": "  Tax return  "});
        let set = call(&SessionCapability, "write_session_title", args, &ctx).await;
        assert_eq!(set.unwrap(), json!({"title": "Tax return"}));
        let info = call(&SessionCapability, "get_session_info", json!({}), &ctx)
            .await
            .unwrap();
        assert_eq!(info["title"], "Tax return");
        assert_eq!(
            (&info["status"], &info["tags"]),
            (&json!("started"), &json!(["a"]))
        );
    }

    #[tokio::test]
    async fn blank_or_long_title_is_refused() {
        let ctx = context();
        for title in [" ".to_owned(), "x".repeat(201)] {
            let args = json!({"title": title});
            let error = call(&SessionCapability, "write_session_title", args, &ctx).await;
            assert!(error.unwrap_err().starts_with("`title`"));
        }
        odd_arguments(&SessionCapability).await;
    }
}
