//! The only conversion between thread records and their wire format.

use chrono::Utc;
use windlass_core::thread_record::{
    ClientTool, OnRestart as StoredOnRestart, ThreadBudget, ThreadEnvironment, ThreadRecord,
};
use windlass_core::turn_policy::{TurnMode, TurnPolicy, TurnPolicyOptions};
use windlass_core::typed_id::SessionId;
use windlass_protocol::mode::UnknownMode;
use windlass_protocol::{
    Budget, CreateThread, DynamicToolSpec, Mode, OnRestart, RECORD_SCHEMA_VERSION, Thread,
    ThreadParent, TurnEnvironmentParams, TurnPolicyParams,
};

use crate::convert::{convert_fields, convert_variants};
use crate::ids;

/// Converts a session's record to a thread.
pub(crate) fn thread(id: SessionId, record: &ThreadRecord) -> Thread {
    let policy = &record.policy;
    let environments = record.environments.iter().map(wire_environment);
    Thread {
        schema_version: RECORD_SCHEMA_VERSION,
        id: ids::thread(id),
        created_at: ids::time(record.created_at),
        updated_at: ids::time(record.updated_at),
        model: policy.model.clone(),
        model_provider: policy.provider.clone(),
        model_provider_id: policy.provider_id.clone(),
        qualified_model: policy.qualified_model.clone(),
        workspace: record.workspace.clone(),
        mode: wire_mode(policy.mode),
        allow_shell: policy.allow_shell,
        trust_mode: policy.trust_mode,
        auto_approve: policy.auto_approve,
        latest_turn_id: record.latest_turn_id.map(|id| id.to_string()),
        archived: record.archived,
        system_prompt: record.system_prompt.clone(),
        task_id: record.task_id.clone(),
        title: record.title.clone(),
        reasoning_effort: policy.reasoning_effort.clone(),
        dynamic_tools: non_empty(record.client_tools.iter().map(wire_tool).collect()),
        environments: non_empty(environments.collect()),
        on_restart: record.on_restart.map(wire_on_restart),
        agent: record.owner.clone(),
        approvals_remembered: policy.approvals_remembered,
        backend: policy.backend.clone(),
        budget: record.budget.as_ref().map(wire_budget),
        parent: record.parent.map(|parent| ThreadParent {
            thread_id: ids::thread(parent.session_id),
            turn_id: parent.turn_id.to_string(),
        }),
    }
}

/// Returns the record of a new thread with the fields that need no validation.
pub(crate) fn copied_fields(request: &CreateThread) -> ThreadRecord {
    let text = |text: &Option<String>| crate::operations::threads::create::non_blank(text.clone());
    ThreadRecord {
        title: text(&request.title),
        archived: request.archived.unwrap_or(false),
        system_prompt: text(&request.system_prompt),
        task_id: text(&request.task_id),
        on_restart: request.on_restart.map(stored_on_restart),
        ..ThreadRecord::default()
    }
}

/// Returns the record of a new thread with the settings of another one.
pub(crate) fn inherited_record(of: ThreadRecord) -> ThreadRecord {
    let now = Utc::now();
    ThreadRecord {
        created_at: now,
        updated_at: now,
        latest_turn_id: None,
        archived: false,
        policy: of.policy.inherited(),
        parent: None,
        ..of
    }
}

/// Returns a list unless it is empty.
fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// Returns the policy of a new thread, with defaults for unset options. The caller sets the model.
pub(crate) fn new_policy(params: TurnPolicyParams) -> TurnPolicy {
    TurnPolicy {
        mode: stored_mode(params.mode.unwrap_or_default()),
        allow_shell: params.allow_shell.unwrap_or(true),
        trust_mode: params.trust_mode.unwrap_or(false),
        auto_approve: params.auto_approve.unwrap_or(false),
        backend: params.backend,
        reasoning_effort: params.reasoning_effort,
        ..TurnPolicy::default()
    }
}

/// Applies the permissions of a request.
pub(crate) fn permit(policy: &mut TurnPolicy, params: &TurnPolicyParams) {
    policy.mode = params.mode.map_or(policy.mode, stored_mode);
    policy.allow_shell = params.allow_shell.unwrap_or(policy.allow_shell);
    policy.trust_mode = params.trust_mode.unwrap_or(policy.trust_mode);
    if let Some(auto_approve) = params.auto_approve {
        policy.auto_approve = auto_approve;
        policy.approvals_remembered = false;
    }
}

/// Returns the options of a thread's policy as a request would set them.
pub(crate) fn params_of_thread(policy: &TurnPolicy) -> TurnPolicyParams {
    TurnPolicyParams {
        model: Some(policy.model.clone()),
        mode: Some(wire_mode(policy.mode)),
        allow_shell: Some(policy.allow_shell),
        trust_mode: Some(policy.trust_mode),
        auto_approve: Some(policy.auto_approve),
        backend: policy.backend.clone(),
        reasoning_effort: policy.reasoning_effort.clone(),
    }
}

/// Returns whether the options are complete, so that later settings of the daemon do not affect a job.
pub(crate) fn is_settled(params: &TurnPolicyParams) -> bool {
    params.model.is_some() && params.mode.is_some() && params.allow_shell.is_some()
}

/// Returns stored options as a request would set them, without the mode.
pub(crate) fn params_without_mode(options: &TurnPolicyOptions) -> TurnPolicyParams {
    TurnPolicyParams {
        model: options.model.clone(),
        mode: None,
        allow_shell: options.allow_shell,
        trust_mode: options.trust_mode,
        auto_approve: options.auto_approve,
        backend: options.backend.clone(),
        reasoning_effort: options.reasoning_effort.clone(),
    }
}

pub(crate) fn params(options: &TurnPolicyOptions) -> Result<TurnPolicyParams, UnknownMode> {
    Ok(TurnPolicyParams {
        mode: options.mode.as_deref().map(str::parse).transpose()?,
        ..params_without_mode(options)
    })
}

pub(crate) fn stored_options(params: TurnPolicyParams) -> TurnPolicyOptions {
    TurnPolicyOptions {
        model: params.model,
        mode: params.mode.map(|mode| mode.to_string()),
        backend: params.backend,
        allow_shell: params.allow_shell,
        trust_mode: params.trust_mode,
        auto_approve: params.auto_approve,
        reasoning_effort: params.reasoning_effort,
    }
}

/// The request fields that limit an agent, for messages.
pub(crate) const PERMISSION_FIELDS: &str = "`mode` and `allow_shell`";
pub(crate) const USE_PERMISSIONS: &str = "`mode` and `allow_shell` say what an agent may do";

convert_variants! {
    pub(crate) fn wire_mode(TurnMode) -> Mode { Agent Plan Operate Yolo }
    pub(crate) fn stored_mode(Mode) -> TurnMode { Agent Plan Operate Yolo }
    fn wire_on_restart(StoredOnRestart) -> OnRestart { Resume Interrupt }
    pub(crate) fn stored_on_restart(OnRestart) -> StoredOnRestart { Resume Interrupt }
}

convert_fields! {
    fn wire_environment(ThreadEnvironment) -> TurnEnvironmentParams { environment_id cwd }
    pub(crate) fn wire_tool(ClientTool) -> DynamicToolSpec { namespace name description input_schema defer_loading timeout_ms }
    pub(crate) fn stored_tool(DynamicToolSpec) -> ClientTool { namespace name description input_schema defer_loading timeout_ms }
    pub(crate) fn wire_budget(ThreadBudget) -> Budget {
        turn_usd turn_tokens turn_model_calls turn_tool_calls turn_seconds thread_usd thread_tokens
    }
    pub(crate) fn stored_budget(Budget) -> ThreadBudget {
        turn_usd turn_tokens turn_model_calls turn_tool_calls turn_seconds thread_usd thread_tokens
    }
}
