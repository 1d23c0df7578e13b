//! Creates threads.

use std::path::Path;

use chrono::Utc;
use windlass_core::events::SessionStartedData;
use windlass_core::thread_record::ThreadRecord;
use windlass_core::turn_policy::TurnPolicy;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{CreateThread, Thread};
use windlass_runtime::SessionBuilder;

use crate::environments::resolve_inside;
use crate::operations::prelude::*;
use crate::operations::threads::budget;
use crate::operations::threads::thread_record::{
    copied_fields, new_policy, params, stored_budget, stored_tool,
};
use crate::threads::FoundThread;
use crate::{external, ids};

/// Returns a text unless it is blank.
pub(crate) fn non_blank(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// Maximum length of a thread's title, in characters, and of its other short texts, in bytes. Every list contains them.
const TITLE_CHARS: usize = 1_000;
const SHORT_BYTES: usize = 256;

/// Rejects a title that is too long.
pub(crate) fn check_title(title: Option<&str>) -> Result<()> {
    let count = title.map_or(0, |title| title.chars().count());
    if count > TITLE_CHARS {
        let text = format!("a title has at most {TITLE_CHARS} characters, not {count}");
        return Err(ApiError::field("/title", text));
    }
    Ok(())
}

/// Rejects a short text that is too long.
pub(crate) fn check_short(name: &str, text: Option<&str>) -> Result<()> {
    let count = text.map_or(0, str::len);
    if count > SHORT_BYTES {
        let text = format!("`{name}` has at most {SHORT_BYTES} bytes, not {count}");
        return Err(ApiError::field(&format!("/{name}"), text));
    }
    Ok(())
}

fn check_texts(request: &CreateThread) -> Result<()> {
    check_title(request.title.as_deref())?;
    for (name, text) in [
        ("model_provider", &request.model_provider),
        ("model_provider_id", &request.model_provider_id),
        ("task_id", &request.task_id),
        ("reasoning_effort", &request.reasoning_effort),
    ] {
        check_short(name, text.as_deref())?;
    }
    Ok(())
}

impl Handle<op::CreateThread> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::CreateThread>) -> Result<Thread> {
        if let Some(existing) = self.already_created(ctx).await? {
            return Ok(existing.thread);
        }
        let draft = self.draft(ctx, call.request)?;
        Ok(self.open_thread(ctx, draft).await?.thread)
    }
}

impl Service {
    /// Validates a client's request for a new thread; nothing is stored yet.
    pub(crate) fn draft(
        &self,
        ctx: &RequestContext,
        request: CreateThread,
    ) -> Result<ThreadRecord> {
        let copied = copied_fields(&request);
        let mut options = request.policy();
        ctx.caller.check_trust(&options)?;
        check_texts(&request)?;
        let effective = self.effective();
        let (models, defaults) = (&effective.models, &effective.overrides);
        let backend = self.backend(non_blank(request.backend))?;
        options.backend.clone_from(&backend);
        options.reasoning_effort = non_blank(options.reasoning_effort);
        let of_backend = backend
            .as_ref()
            .and_then(|name| self.settings.api_backends.get(name));
        let model = request.model.as_deref().or(of_backend.map(String::as_str));
        let tools = request.dynamic_tools.filter(|tools| !tools.is_empty());
        external::check(tools.as_deref().unwrap_or_default(), &self.builtin_tools)?;
        let environments = request.environments.unwrap_or_default();
        let environments = self.resolve_environments(&environments)?;
        let workspace = match (&request.workspace, environments.first()) {
            (Some(workspace), _) => self.workspace(workspace)?,
            (None, Some(first)) => first.cwd.display().to_string(),
            (None, None) => self.fixed.local.root.display().to_string(),
        };
        let model = self.resolve_model(backend.as_deref(), model)?;
        let provider = models.provider_of(&model).map(str::to_owned);
        let qualified_model = models
            .qualified(&model)
            .filter(|_| !self.is_external(backend.as_deref()));
        let now = Utc::now();
        let provider_id = non_blank(request.model_provider_id)
            .or_else(|| request.model_provider.clone())
            .or_else(|| provider.clone());
        let defaults = params(&defaults.policy).map_err(ApiError::internal)?;
        Ok(ThreadRecord {
            created_at: now,
            updated_at: now,
            owner: ctx.caller.agent().map(str::to_owned),
            policy: TurnPolicy {
                model,
                provider: non_blank(request.model_provider).or(provider),
                provider_id,
                qualified_model,
                ..new_policy(options.or(defaults))
            },
            workspace,
            environments,
            budget: budget::checked(request.budget)?.as_ref().map(stored_budget),
            client_tools: tools.iter().flatten().map(stored_tool).collect(),
            ..copied
        })
    }

    /// Returns the external agent that runs the turns of a thread with this backend; `None` if it is an API backend, which uses the daemon's own
    /// loop.
    pub(crate) fn external_agent<'a>(&self, backend: Option<&'a str>) -> Result<Option<&'a str>> {
        let external_agent = backend.filter(|_| self.is_external(backend));
        // An external agent uses the operator's login, so it must not run for unauthenticated clients.
        if external_agent.is_some() && self.settings.access.is_open() {
            return Err(ApiError::field(
                "/backend",
                "external agents need a daemon that requires a token; start it without --insecure",
            ));
        }
        Ok(external_agent)
    }

    /// Returns whether an external agent runs the turns of a thread with this backend.
    pub(crate) fn is_external(&self, backend: Option<&str>) -> bool {
        backend.is_some_and(|name| !self.settings.api_backends.contains_key(name))
    }

    /// Resolves the name of a model for a thread with this backend. An external agent reaches its provider directly, so that provider is not checked.
    pub(crate) fn resolve_model(
        &self,
        backend: Option<&str>,
        requested: Option<&str>,
    ) -> Result<String> {
        let models = &self.effective().models;
        if self.is_external(backend) {
            models.resolve_for_agent(requested)
        } else {
            models.resolve(requested)
        }
    }

    /// Checks that a backend is available.
    fn backend(&self, name: Option<String>) -> Result<Option<String>> {
        let Some(name) = name else {
            return Ok(None);
        };
        let (agents, apis) = (&self.settings.backends, &self.settings.api_backends);
        if let Some(external_agent) = self.external_agent(Some(&name))?
            && !agents.contains(external_agent)
        {
            let known = agents.iter().chain(apis.keys()).map(String::as_str);
            let known: Vec<_> = known.collect();
            let text = format!(
                "there is no backend `{name}`; there are: {}",
                known.join(", ")
            );
            return Err(ApiError::field("/backend", text));
        }
        Ok(Some(name))
    }

    /// Resolves a directory in the environment `local`.
    pub(crate) fn workspace(&self, path: &str) -> Result<String> {
        let path = resolve_inside(&self.fixed.local, Path::new(path))?;
        self.refuse_hidden(&path)?;
        Ok(path.display().to_string())
    }

    /// Finds the thread that an earlier attempt of the same request created. Its ID derives from the request, so the age of that attempt does not
    /// matter.
    pub(crate) async fn already_created(
        &self,
        ctx: &RequestContext,
    ) -> Result<Option<FoundThread>> {
        match &ctx.repeatable {
            Some(request) => self.look_up(ids::derived_thread(request)).await,
            None => Ok(None),
        }
    }

    /// Returns the ID of a new thread: derived from the request if that has an idempotency key, else random. Call [`already_created`](Self::already_created)
    /// first.
    pub(crate) fn new_thread_id(&self, ctx: &RequestContext) -> SessionId {
        let derived = ctx.repeatable.as_deref().map(ids::derived_thread);
        derived.unwrap_or_default()
    }

    /// Reserves quota for one more thread, of an agent if one is named.
    pub(crate) async fn reserve_thread(&self, agent: Option<&str>) -> Result<()> {
        let (queries, limits) = (&*self.queries, &self.settings.limits);
        if let Some(agent) = agent {
            let of_agent = limits.threads_of_agent;
            self.thread_quota
                .reserve_for_agent(queries, agent, of_agent)
                .await?;
        }
        self.thread_quota.reserve(queries, limits.threads).await
    }

    /// Stores a thread with its first record.
    pub(crate) async fn open_thread(
        &self,
        ctx: &RequestContext,
        record: ThreadRecord,
    ) -> Result<FoundThread> {
        let id = self.new_thread_id(ctx);
        self.open_thread_as(ctx, id, record).await
    }

    /// Stores a thread under an unused ID.
    pub(crate) async fn open_thread_as(
        &self,
        ctx: &RequestContext,
        id: SessionId,
        record: ThreadRecord,
    ) -> Result<FoundThread> {
        self.reserve_thread(ctx.caller.agent()).await?;
        let mut session = SessionBuilder::new(self.settings.harness_id).build();
        session.id = id;
        session.agent_id = self.settings.agent_id;
        session.title.clone_from(&record.title);
        let first = SessionStartedData {
            title: record.title.clone(),
            record: Some(Box::new(record)),
        };
        self.runtime.add_session(session).await?;
        if let Err(error) = self.runtime.note_session(id, first).await {
            let _ = self.runtime.remove_session(id).await;
            return Err(error.into());
        }
        self.thread(id).await
    }
}
