//! Golden JSON: each type reads its file and writes the same value.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_protocol::{
    answers, apps, automations, config, environments, events, info, stream, tasks, threads, turns,
    usage, workspace,
};

fn check<T: DeserializeOwned + Serialize>(name: &str, text: &str) {
    let value: Value = serde_json::from_str(text).expect(name);
    let read: T = serde_json::from_value(value.clone()).expect(name);
    assert_eq!(serde_json::to_value(&read).unwrap(), value, "{name}");
}

macro_rules! golden {
    ($($test:ident: $ty:ty = $file:literal;)*) => {$(
        #[test]
        fn $test() {
            check::<$ty>($file, include_str!(concat!("../golden/", $file, ".json")));
        }
    )*};
}

golden! {
    health: info::Health = "health";
    runtime_info: info::RuntimeInfo = "runtime-info";
    thread: threads::Thread = "thread";
    thread_detail: threads::ThreadDetail = "thread-detail";
    thread_summary: threads::ThreadSummary = "thread-summary";
    thread_and_turn: threads::ThreadAndTurn = "thread-and-turn";
    turn_interrupted: turns::Turn = "turn-interrupted";
    undone_thread: threads::UndoneThread = "undone-thread";
    replayed_thread: threads::ReplayedThread = "replayed-thread";
    approval_answered: answers::ApprovalAnswered = "approval-answered";
    user_input_answered: answers::UserInputAnswered = "user-input-answered";
    usage_report: usage::UsageReport = "usage";
    workspace_status: workspace::WorkspaceStatus = "workspace-status";
    environment: environments::EnvironmentList = "environments";
    task_list: tasks::TaskList = "tasks";
    task: tasks::TaskRecord = "task";
    automation: automations::AutomationRecord = "automation";
    automation_run: automations::AutomationRunRecord = "automation-run";
    skill_list: apps::SkillList = "skills";
    runtime_config: config::RuntimeConfig = "config";
    provider_list: config::ProviderList = "providers";
    one_shot_completed: stream::OneShotCompleted = "one-shot-completed";
    all_events: Vec<events::RuntimeEventEnvelope> = "events";
}
