//! The table of operations.

use super::{
    AgentRunPath, AgentRunsQuery, ApprovalPath, AutomationRunsQuery, CallPath, Endpoint,
    EventsQuery, ExportQuery, FleetEventsQuery, FleetRunsQuery, IdPath, InputPath, McpToolsQuery,
    Method, NamePath, Operation, Query, RecordsQuery, RequestBody, RequiredScope, ResponseForm,
    RunPath, RunsQuery, SessionQuery, SessionsQuery, SnapshotsQuery, TasksQuery, ThreadDetailQuery,
    ThreadStateQuery, ThreadSummariesQuery, ThreadsQuery, TurnPath, UsageQuery, WaitsQuery,
    WorkerPath,
};
use crate as wire;
use crate::ErrorCode;
use crate::api::{Call, CallFuture, Page, ResponseStream};
use crate::{agent_runs, apps, config, fleet, info, stream, workspace};

/// The first type of the list, or the default behind the semicolon.
macro_rules! or {
    ($given:ty; $default:ty) => {
        $given
    };
    (; $default:ty) => {
        $default
    };
}

/// The type of a response by its form.
macro_rules! response {
    (Json $response:ty) => { $response };
    (List $element:ty) => { Page<$element> };
    (Events $event:ty) => { ResponseStream<$event> };
    // Frames and lines of more than one type arrive as they were sent.
    (Frames) => { ResponseStream<Vec<u8>> };
    (Lines $line:ty) => { ResponseStream<Vec<u8>> };
    (Text) => { String };
    (Empty) => { () };
}

macro_rules! body {
    () => {
        RequestBody::None
    };
    (body $ty:ty) => {
        RequestBody::Required
    };
    (optional $ty:ty) => {
        RequestBody::Optional
    };
}

/// The schema of a type, if there is one.
#[cfg(feature = "openapi")]
macro_rules! described {
    ($document:ident) => {
        None
    };
    ($document:ident $ty:ty) => {
        Some($document.schema::<$ty>())
    };
}

macro_rules! operations {
    (($dollar:tt) $(
        #[doc = $summary:literal]
        $name:ident $function:ident $method:ident $path:literal $scope:ident
        $(at $path_type:ty,)? $(query $query:ty,)? $(body $body:ty,)? $(optional $optional:ty,)? -> $status:literal $form:ident $($response:ty)?
        $(, errors [$($error:ident)*])?;
    )*) => {
        $(
            #[doc = $summary]
            #[derive(Debug, Clone, Copy)]
            pub struct $name;

            impl Endpoint for $name {
                const OPERATION: Operation = Operation {
                    name: stringify!($name),
                    method: Method::$method,
                    path: $path,
                    scope: RequiredScope::$scope,
                    summary: $summary.trim_ascii_start(),
                    query: <or!($($query)?; ()) as Query>::PARAMETERS,
                    body: body!($(body $body)? $(optional $optional)?),
                    status: $status,
                    response: ResponseForm::$form,
                    own_errors: &[$($(ErrorCode::$error),*)?],
                };
                type Path = or!($($path_type)?; ());
                type Query = or!($($query)?; ());
                type Request = or!($($body)? $($optional)?; ());
                type Response = response!($form $($response)?);
            }
        )*

        /// Every operation of the Runtime API as a function.
        pub trait RuntimeApi: Send + Sync {
            $(
                #[doc = $summary]
                fn $function(&self, call: Call<$name>) -> CallFuture<'_, <$name as Endpoint>::Response>;
            )*
        }

        /// Passes all operations to a macro, each as `Name function Form;` with a name of [`ResponseForm`].
        #[macro_export]
        macro_rules! for_each_operation {
            ($dollar callback:ident) => {
                $dollar callback! { $($name $function $form;)* }
            };
        }

        /// Every operation in the order of the documentation.
        pub const OPERATIONS: &[Operation] = &[$(<$name as Endpoint>::OPERATION),*];

        /// Adds every operation with the schemas of its types to a description of the API.
        #[cfg(feature = "openapi")]
        pub(crate) fn describe(document: &mut crate::openapi::Document) {
            $(
                let body = described!(document $($body)? $($optional)?);
                let response = described!(document $($response)?);
                document.add(&<$name as Endpoint>::OPERATION, body, response);
            )*
        }
    };
}

operations! {
    ($)

    /// Reports that the daemon is alive.
    GetHealth get_health Get "/health" Anyone -> 200 Json wire::Health;
    /// Reports whether the daemon accepts requests.
    GetReady get_ready Get "/ready" Anyone -> 200 Json info::Ready,
        errors [NotReady ShuttingDown];
    /// Returns metrics in the text format of Prometheus.
    GetMetrics get_metrics Get "/metrics" Client -> 200 Text;
    /// Returns the version and the features of the daemon.
    GetRuntimeInfo get_runtime_info Get "/v1/runtime/info" Anyone -> 200 Json wire::RuntimeInfo;
    /// Returns this description.
    GetOpenapi get_openapi Get "/v1/openapi.json" Agent -> 200 Json serde_json::Value;

    /// Lists threads, the most recently updated first.
    ListThreads list_threads Get "/v1/threads" Agent query ThreadsQuery, -> 200 List wire::Thread;
    /// Creates a thread.
    CreateThread create_thread Post "/v1/threads" Agent optional wire::CreateThread, -> 201 Json wire::Thread,
        errors [
            ProviderUnusable NotConfigured EnvironmentNotFound CwdOutsideRoot CwdNotFound UnsupportedKind InvalidToolSpec
            ToolNameTaken NotImplemented
        ];
    /// Lists threads, one line each.
    SummarizeThreads summarize_threads Get "/v1/threads/summary" Agent query ThreadSummariesQuery, -> 200 List wire::ThreadSummary;
    /// Returns a whole thread.
    GetThread get_thread Get "/v1/threads/{id}" Owner at IdPath, query ThreadDetailQuery, -> 200 Json wire::ThreadDetail;
    /// Changes a thread.
    PatchThread patch_thread Patch "/v1/threads/{id}" Owner at IdPath, body wire::PatchThread, -> 200 Json wire::Thread,
        errors [
            NoChanges ModelRequired TurnActive ProviderUnusable NotConfigured EnvironmentNotFound CwdOutsideRoot CwdNotFound
            UnsupportedKind InvalidToolSpec ToolNameTaken NotImplemented
        ];
    /// Removes a thread with its whole record.
    DeleteThread delete_thread Delete "/v1/threads/{id}" Owner at IdPath, -> 204 Empty;
    /// Estimates how much of the model's context window the next model call takes.
    GetThreadContext get_thread_context Get "/v1/threads/{id}/context" Owner at IdPath, -> 200 Json wire::ContextUsage,
        errors [ProviderUnusable NotConfigured];
    /// Writes a thread, then each of its events, one per line.
    ExportThread export_thread Get "/v1/threads/{id}/export" Owner at IdPath, query ExportQuery, -> 200 Lines wire::RuntimeEventEnvelope,
        errors [ShuttingDown];
    /// Returns a thread and resumes its open turn.
    ResumeThread resume_thread Post "/v1/threads/{id}/resume" Owner at IdPath, -> 200 Json wire::Thread,
        errors [ProviderUnusable NotConfigured ShuttingDown];
    /// Creates a thread that starts with the history of this one.
    ForkThread fork_thread Post "/v1/threads/{id}/fork" Owner at IdPath, optional wire::ForkThread, -> 201 Json wire::Thread,
        errors [TurnNotFound NotForkable DepthOutOfRange];
    /// Creates a thread without the last turns.
    UndoThread undo_thread Post "/v1/threads/{id}/undo" Owner at IdPath, optional wire::UndoThread, -> 201 Json wire::UndoneThread,
        errors [DepthOutOfRange NotForkable TurnActive FilesChanged FilesNotKept FilesBusy FilesNotRestored];
    /// Creates a thread without the last turns and restores their files: undo with `files`.
    PatchUndoThread patch_undo_thread Post "/v1/threads/{id}/patch-undo" Owner at IdPath, optional wire::UndoThread, -> 201 Json wire::PatchUndone,
        errors [DepthOutOfRange NotForkable TurnActive FilesChanged FilesNotKept FilesBusy FilesNotRestored];
    /// Creates a thread without the last turns and starts another turn.
    RetryThread retry_thread Post "/v1/threads/{id}/retry" Owner at IdPath, optional wire::RetryThread, -> 201 Json wire::ThreadAndTurn,
        errors [
            PromptRequired DepthOutOfRange TurnNotFound NotForkable TurnActive FilesChanged FilesNotKept FilesBusy
            FilesNotRestored EnvironmentNotFound CwdOutsideRoot CwdNotFound UnsupportedKind ProviderUnusable NotConfigured BudgetExceeded
            ShuttingDown
        ];
    /// Compacts the history.
    CompactThread compact_thread Post "/v1/threads/{id}/compact" Owner at IdPath, optional wire::CompactThread, -> 202 Json wire::ThreadAndTurn,
        errors [TurnActive ProviderUnusable NotConfigured BudgetExceeded ShuttingDown];
    /// Decides the recorded steps again and reports the first difference.
    ReplayThread replay_thread Post "/v1/threads/{id}/replay" Client at IdPath, optional wire::ReplayThread, -> 200 Json wire::ReplayedThread,
        errors [NotReplayable PromptRequired ProviderUnusable NotConfigured];
    /// Checks that the records of a thread are those that were written.
    VerifyThread verify_thread Post "/v1/threads/{id}/verify" Client at IdPath, -> 200 Json wire::VerifiedThread;
    /// Lists the records of a thread as they are stored, in pages.
    ListRecords list_records Get "/v1/threads/{id}/records" Client at IdPath, query RecordsQuery, -> 200 Json wire::RecordPage;
    /// Returns the state of a thread after one of its records.
    GetThreadState get_thread_state Get "/v1/threads/{id}/state" Owner at IdPath, query ThreadStateQuery, -> 200 Json wire::ThreadStateAt;
    /// Streams the events of a thread.
    StreamEvents stream_events Get "/v1/threads/{id}/events" Owner at IdPath, query EventsQuery, -> 200 Events wire::RuntimeEventEnvelope,
        errors [ShuttingDown];

    /// Starts a turn.
    StartTurn start_turn Post "/v1/threads/{id}/turns" Owner at IdPath, body wire::StartTurn, -> 201 Json wire::ThreadAndTurn,
        errors [
            PromptRequired TurnActive NoActiveTurn TurnNotActive TurnStopping EnvironmentNotFound CwdOutsideRoot CwdNotFound
            UnsupportedKind InvalidToolSpec ToolNameTaken ProviderUnusable NotConfigured UnsupportedInput BudgetExceeded
            ShuttingDown
        ];
    /// Returns a turn.
    GetTurn get_turn Get "/v1/threads/{id}/turns/{turn_id}" Owner at TurnPath, -> 200 Json wire::TurnDetail,
        errors [TurnNotFound];
    /// Adds input to a running turn.
    SteerTurn steer_turn Post "/v1/threads/{id}/turns/{turn_id}/steer" Owner at TurnPath, body wire::SteerTurn, -> 200 Json wire::Turn,
        errors [PromptRequired TurnNotFound NoActiveTurn TurnNotActive TurnStopping UnsupportedInput BudgetExceeded ShuttingDown];
    /// Interrupts a turn.
    InterruptTurn interrupt_turn Post "/v1/threads/{id}/turns/{turn_id}/interrupt" Owner at TurnPath, -> 200 Json wire::Turn,
        errors [TurnNotFound NoActiveTurn TurnNotActive];
    /// Lists the inputs of a thread that wait for their turns, the next one first.
    ListQueue list_queue Get "/v1/threads/{id}/queue" Owner at IdPath, -> 200 Json wire::InputQueue;
    /// Changes the text or the position of a queued input.
    EditQueuedInput edit_queued_input Patch "/v1/threads/{id}/queue/{turn_id}" Owner at TurnPath, body wire::EditQueuedInput, -> 200 Json wire::QueuedInput,
        errors [PromptRequired NoChanges TurnNotFound TurnNotQueued];
    /// Removes a queued input; a turn that has started is not interrupted.
    RemoveQueuedInput remove_queued_input Delete "/v1/threads/{id}/queue/{turn_id}" Owner at TurnPath, -> 204 Empty,
        errors [TurnNotFound TurnNotQueued];
    /// Submits the result of a client's tool call.
    SubmitToolResult submit_tool_result Post "/v1/threads/{id}/turns/{turn_id}/tool-calls/{call_id}/result" Owner at CallPath, body wire::DynamicToolCallResult, -> 202 Empty,
        errors [TurnNotFound ToolCallNotPending ShuttingDown];
    /// Lists calls and questions of all threads that wait for a client.
    ListWaits list_waits Get "/v1/waits" Agent query WaitsQuery, -> 200 List wire::Wait;
    /// Allows or denies a call.
    DecideApproval decide_approval Post "/v1/approvals/{approval_id}" Client at ApprovalPath, body wire::DecideApproval, -> 200 Json wire::ApprovalAnswered,
        errors [ApprovalNotPending InvalidDecision ShuttingDown];
    /// Answers a question.
    AnswerUserInput answer_user_input Post "/v1/user-input/{thread_id}/{input_id}" Client at InputPath, body wire::UserInputAnswers, -> 200 Json wire::UserInputAnswered,
        errors [ThreadNotFound UserInputNotPending ShuttingDown];
    /// Runs one turn of an archived thread and streams it.
    StreamOneTurn stream_one_turn Post "/v1/stream" Agent body stream::OneShot, -> 200 Frames,
        errors [
            PromptRequired EnvironmentNotFound CwdOutsideRoot CwdNotFound UnsupportedKind ProviderUnusable NotConfigured
            UnsupportedInput BudgetExceeded ShuttingDown
        ];

    /// Lists saved sessions.
    ListSessions list_sessions Get "/v1/sessions" Agent query SessionsQuery, -> 200 Json wire::SessionList;
    /// Saves a thread as a session: a named bookmark of its record.
    SaveSession save_session Post "/v1/sessions" Agent body wire::SaveSession, -> 201 Json wire::SavedSession,
        errors [ThreadNotFound NothingToSave TurnActive];
    /// Saves a thread over a session.
    UpdateSession update_session Put "/v1/sessions" Agent body wire::UpdateSession, -> 200 Json wire::UpdatedSession,
        errors [SessionNotFound ThreadNotFound NothingToSave TurnActive];
    /// Lists saved sessions, one line each.
    SummarizeSessions summarize_sessions Get "/v1/sessions/summary" Agent query SessionsQuery, -> 200 List wire::SessionLine;
    /// Returns a saved session.
    GetSession get_session Get "/v1/sessions/{id}" Agent at IdPath, query SessionQuery, -> 200 Json wire::SessionView,
        errors [SessionNotFound TurnNotFound];
    /// Renames or archives a saved session.
    PatchSession patch_session Patch "/v1/sessions/{id}" Agent at IdPath, body wire::PatchSession, -> 200 Json wire::PatchedSession,
        errors [SessionNotFound NoChanges];
    /// Removes a saved session; its thread remains.
    DeleteSession delete_session Delete "/v1/sessions/{id}" Agent at IdPath, -> 204 Empty,
        errors [SessionNotFound];
    /// Estimates how much of the model's context window a thread takes that starts with the session.
    GetSessionContext get_session_context Get "/v1/sessions/{id}/context" Agent at IdPath, -> 200 Json wire::ContextUsage,
        errors [SessionNotFound TurnNotFound ProviderUnusable NotConfigured];
    /// Creates a thread that starts with a saved session.
    ResumeSession resume_session Post "/v1/sessions/{id}/resume-thread" Agent at IdPath, optional wire::ResumeSession, -> 201 Json wire::ResumedSession,
        errors [SessionNotFound TurnNotFound NotForkable ProviderUnusable NotConfigured];

    /// Lists turns that changed files, newest first.
    ListSnapshots list_snapshots Get "/v1/snapshots" Client query SnapshotsQuery, -> 200 List workspace::Snapshot;
    /// Restores files to their state before a turn; the conversation is unchanged.
    RestoreSnapshot restore_snapshot Post "/v1/snapshots/{id}/restore" Client at IdPath, -> 200 Json workspace::RestoredSnapshot,
        errors [TurnNotFound TurnActive FilesChanged FilesNotKept FilesBusy FilesNotRestored];

    /// Lists tasks, newest first.
    ListTasks list_tasks Get "/v1/tasks" Agent query TasksQuery, -> 200 Json wire::TaskList;
    /// Queues a task.
    CreateTask create_task Post "/v1/tasks" Agent body wire::CreateTask, -> 201 Json wire::TaskRecord,
        errors [PromptRequired EnvironmentNotFound CwdOutsideRoot CwdNotFound UnsupportedKind ProviderUnusable NotConfigured ShuttingDown];
    /// Returns a task.
    GetTask get_task Get "/v1/tasks/{id}" Agent at IdPath, -> 200 Json wire::TaskRecord,
        errors [TaskNotFound];
    /// Cancels a task; a running one ends with its turn.
    CancelTask cancel_task Post "/v1/tasks/{id}/cancel" Agent at IdPath, -> 200 Json wire::TaskRecord,
        errors [TaskNotFound];

    /// Lists automations, newest first.
    ListAutomations list_automations Get "/v1/automations" Agent -> 200 List wire::AutomationRecord;
    /// Creates an automation.
    CreateAutomation create_automation Post "/v1/automations" Agent body wire::CreateAutomation, -> 201 Json wire::AutomationRecord,
        errors [PromptRequired InvalidSchedule EnvironmentNotFound CwdOutsideRoot CwdNotFound UnsupportedKind ProviderUnusable NotConfigured];
    /// Returns an automation.
    GetAutomation get_automation Get "/v1/automations/{id}" Agent at IdPath, -> 200 Json wire::AutomationRecord,
        errors [AutomationNotFound];
    /// Changes an automation.
    PatchAutomation patch_automation Patch "/v1/automations/{id}" Agent at IdPath, body wire::PatchAutomation, -> 200 Json wire::AutomationRecord,
        errors [
            PromptRequired AutomationNotFound AutomationDeclared NoChanges InvalidSchedule EnvironmentNotFound CwdOutsideRoot
            CwdNotFound UnsupportedKind ProviderUnusable NotConfigured
        ];
    /// Removes an automation; queued runs are unaffected.
    DeleteAutomation delete_automation Delete "/v1/automations/{id}" Agent at IdPath, -> 200 Json wire::AutomationRecord,
        errors [AutomationNotFound AutomationDeclared];
    /// Runs an automation now.
    RunAutomation run_automation Post "/v1/automations/{id}/run" Agent at IdPath, -> 200 Json wire::AutomationRunRecord,
        errors [AutomationNotFound ProviderUnusable NotConfigured ShuttingDown];
    /// Pauses the schedule of an automation.
    PauseAutomation pause_automation Post "/v1/automations/{id}/pause" Agent at IdPath, -> 200 Json wire::AutomationRecord,
        errors [AutomationNotFound AutomationDeclared];
    /// Resumes the schedule of an automation.
    ResumeAutomation resume_automation Post "/v1/automations/{id}/resume" Agent at IdPath, -> 200 Json wire::AutomationRecord,
        errors [AutomationNotFound AutomationDeclared];
    /// Lists the runs of an automation, newest first.
    ListAutomationRuns list_automation_runs Get "/v1/automations/{id}/runs" Agent at IdPath, query AutomationRunsQuery, -> 200 List wire::AutomationRunRecord,
        errors [AutomationNotFound];

    /// Lists runs, newest first: turns of threads, and runs that other programs reported.
    ListRuns list_runs Get "/v1/runs" Agent query RunsQuery, -> 200 List wire::RunLine;
    /// Sums the usage of turns.
    GetUsage get_usage Get "/v1/usage" Client query UsageQuery, -> 200 Json wire::UsageReport;

    /// Lists all environments.
    ListEnvironments list_environments Get "/v1/environments" Agent -> 200 Json wire::EnvironmentList;
    /// Creates an environment.
    CreateEnvironment create_environment Post "/v1/environments" Admin body wire::CreateEnvironment, -> 201 Json wire::EnvironmentInfo,
        errors [EnvironmentExists CwdNotFound CwdOutsideRoot UnsupportedKind];
    /// Returns an environment.
    GetEnvironment get_environment Get "/v1/environments/{id}" Agent at IdPath, -> 200 Json wire::EnvironmentInfo,
        errors [EnvironmentNotFound];
    /// Removes an environment.
    DeleteEnvironment delete_environment Delete "/v1/environments/{id}" Admin at IdPath, -> 204 Empty,
        errors [EnvironmentNotFound EnvironmentInUse EnvironmentProtected];

    /// Lists fleet runs, newest first.
    ListFleetRuns list_fleet_runs Get "/v1/fleet/runs" Agent query FleetRunsQuery, -> 200 Json fleet::FleetRunList;
    /// Creates a fleet run: many tasks, executed by workers that are threads.
    CreateFleetRun create_fleet_run Post "/v1/fleet/runs" Agent body fleet::CreateFleetRun, -> 201 Json fleet::CreatedFleetRun,
        errors [PromptRequired EnvironmentNotFound CwdOutsideRoot CwdNotFound UnsupportedKind ProviderUnusable NotConfigured ShuttingDown];
    /// Returns a fleet run with its request.
    GetFleetRun get_fleet_run Get "/v1/fleet/runs/{run_id}" Agent at RunPath, -> 200 Json fleet::FleetRunDetail,
        errors [FleetRunNotFound];
    /// Starts a fleet run that was created without a start.
    StartFleetRun start_fleet_run Post "/v1/fleet/runs/{run_id}/start" Agent at RunPath, -> 202 Json fleet::StartedFleetRun,
        errors [FleetRunNotFound FleetRunEnded ShuttingDown];
    /// Stops a fleet run: waiting tasks are cancelled, running ones interrupted.
    StopFleetRun stop_fleet_run Post "/v1/fleet/runs/{run_id}/stop" Agent at RunPath, -> 200 Json fleet::StoppedFleetRun,
        errors [FleetRunNotFound];
    /// Returns the workers of a fleet run.
    ListFleetWorkers list_fleet_workers Get "/v1/fleet/runs/{run_id}/workers" Agent at RunPath, -> 200 Json fleet::FleetWorkerList,
        errors [FleetRunNotFound];
    /// Streams the events of a fleet run, to its end.
    StreamFleetEvents stream_fleet_events Get "/v1/fleet/runs/{run_id}/events" Agent at RunPath, query FleetEventsQuery, -> 200 Events fleet::FleetRunEvent,
        errors [FleetRunNotFound ShuttingDown];
    /// Returns the recorded events of a fleet run.
    ReplayFleetEvents replay_fleet_events Get "/v1/fleet/runs/{run_id}/events/replay" Agent at RunPath, query FleetEventsQuery, -> 200 Json fleet::FleetEventReplay,
        errors [FleetRunNotFound];
    /// Returns a worker.
    GetFleetWorker get_fleet_worker Get "/v1/fleet/workers/{worker_id}" Agent at WorkerPath, -> 200 Json fleet::FleetWorker,
        errors [WorkerNotFound];
    /// Cancels the task of a worker; the worker takes another one.
    InterruptFleetWorker interrupt_fleet_worker Post "/v1/fleet/workers/{worker_id}/interrupt" Agent at WorkerPath, -> 200 Json fleet::FleetWorkerCommandResult,
        errors [WorkerNotFound WorkerIdle FleetRunEnded];
    /// The same as interrupt.
    StopFleetWorker stop_fleet_worker Post "/v1/fleet/workers/{worker_id}/stop" Agent at WorkerPath, -> 200 Json fleet::FleetWorkerCommandResult,
        errors [WorkerNotFound WorkerIdle FleetRunEnded];
    /// Starts the task of a worker again, on the same thread.
    RestartFleetWorker restart_fleet_worker Post "/v1/fleet/workers/{worker_id}/restart" Agent at WorkerPath, -> 200 Json fleet::FleetWorkerCommandResult,
        errors [WorkerNotFound WorkerIdle FleetRunEnded];

    /// Stops the running turn of an agent that works for the thread.
    CancelAgentRun cancel_agent_run Post "/v1/threads/{id}/agent-runs/{agent_id}/cancel" Owner at AgentRunPath, -> 200 Json agent_runs::AgentRun,
        errors [AgentRunNotFound NoActiveTurn];
    /// Reminds the running turn of agents that still run.
    NudgeAgentRuns nudge_agent_runs Post "/v1/threads/{id}/agent-runs/nudge" Owner at IdPath, body agent_runs::NudgeAgentRuns, -> 200 Json agent_runs::NudgedAgentRuns,
        errors [NoActiveTurn TurnStopping];
    /// Lists agents that models started, newest first.
    ListAgentRuns list_agent_runs Get "/v1/agent-runs" Agent query AgentRunsQuery, -> 200 Json agent_runs::AgentRunList;
    /// Returns an agent that a model started.
    GetAgentRun get_agent_run Get "/v1/agent-runs/{run_id}" Agent at RunPath, -> 200 Json agent_runs::AgentRun,
        errors [AgentRunNotFound];

    /// Returns the effective configuration.
    GetConfig get_config Get "/v1/config" Client -> 200 Json config::RuntimeConfig;
    /// Sets a default for threads whose clients do not choose.
    SetConfig set_config Post "/v1/config" Admin body config::SetConfig, -> 200 Json config::ConfigSet,
        errors [UnknownSetting RestartRequired NotImplemented];
    /// Reads the configuration file again.
    ReloadConfig reload_config Post "/v1/config/reload" Admin -> 200 Json config::ConfigReloaded,
        errors [ConfigInvalid NotImplemented];
    /// Lists the models of the current provider.
    ListModels list_models Get "/v1/models" Client -> 200 Json config::ModelList;
    /// Lists the model providers.
    ListProviders list_providers Get "/v1/providers" Client -> 200 Json config::ProviderList;
    /// Lists the configured models of a provider.
    ListProviderModels list_provider_models Get "/v1/providers/{id}/models" Client at IdPath, -> 200 Json config::ProviderModelList,
        errors [UnknownProvider];
    /// Selects the provider that is used when no model is named.
    SwitchProvider switch_provider Post "/v1/providers/{id}/switch" Admin at IdPath, optional config::SwitchProvider, -> 200 Json config::SwitchedProvider,
        errors [UnknownProvider ProviderUnusable RestartRequired NotImplemented];

    /// Lists the skills of the workspace.
    ListSkills list_skills Get "/v1/skills" Client -> 200 Json apps::SkillList;
    /// Enables or disables a skill.
    SwitchSkill switch_skill Post "/v1/skills/{name}" Admin at NamePath, body apps::SwitchSkill, -> 200 Json apps::SwitchedSkill,
        errors [SkillNotFound RestartRequired];
    /// Lists the operator's MCP servers.
    ListMcpServers list_mcp_servers Get "/v1/apps/mcp/servers" Client -> 200 Json apps::McpServerList;
    /// Lists the tools of MCP servers.
    ListMcpTools list_mcp_tools Get "/v1/apps/mcp/tools" Client query McpToolsQuery, -> 200 Json apps::McpToolList,
        errors [ServerNotFound];
    /// Returns the state of the daemon's directory.
    GetWorkspaceStatus get_workspace_status Get "/v1/workspace/status" Agent -> 200 Json wire::WorkspaceStatus;
}
