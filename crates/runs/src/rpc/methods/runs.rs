//! `runs.*`: parsing of parameters and serialization of responses; [`Runs`](crate::Runs) implements the rules.

use crate::{CancelRun, DropReason, Follower, ListRuns, RecordOutcome, StartRun};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_core::runs::{ModelTurn, RunOutcome, RunStatus, RunTurn};

use super::{fields, params as read};
use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::frame;
use crate::rpc::hub::MethodResult;
use crate::rpc::outbox::Outbox;

use fields::JsonObject;

/// Parses the parameters of a method, and returns the names of ignored fields for the response.
fn parse<T: DeserializeOwned>(
    connection: &Connection,
    method: &str,
    expected: &str,
    params: &JsonObject,
) -> Result<(T, Vec<String>), RpcError> {
    let parsed = read(&format!("{method} requires {expected}"), params)?;
    Ok((parsed, fields::check(connection, method, params)?))
}

pub(super) async fn start(connection: &Connection, params: &JsonObject) -> MethodResult {
    let expected = "{ intent, agent_id?, agent_name?, outcome_description? }";
    let (start, ignored) = parse::<StartRun>(connection, "runs.start", expected, params)?;
    let caller = &connection.caller;
    let started = connection.hub.runs.start(caller, start).await?;
    let mut answer = json!({
        "run_id": started.run_id,
        "agent_id": started.agent_id,
        "client_id": caller.client_id.as_str(),
    });
    if let Some(status) = started.existing {
        answer["existing"] = json!(true);
        answer["status"] = json!(status);
    }
    Ok(fields::with_ignored(answer, &ignored))
}

#[derive(Deserialize)]
pub(super) struct CompleteParams {
    run_id: String,
    outcome: RunOutcome,
}

pub(super) async fn complete(connection: &Connection, params: &JsonObject) -> MethodResult {
    let (CompleteParams { run_id, outcome }, ignored) =
        parse(connection, "runs.complete", "{ run_id, outcome }", params)?;
    let runs = &connection.hub.runs;
    runs.complete(&connection.caller, &run_id, outcome).await?;
    let answer = json!({"run_id": run_id, "ok": true});
    Ok(fields::with_ignored(answer, &ignored))
}

#[derive(Deserialize)]
pub(super) struct RecordTurnsParams {
    run_id: String,
    turns: Vec<RunTurn>,
}

pub(super) async fn record_turns(connection: &Connection, params: &JsonObject) -> MethodResult {
    let (RecordTurnsParams { run_id, turns }, ignored) =
        parse(connection, "runs.record_turns", "{ run_id, turns }", params)?;
    // The original protocol records such turns.
    let empty = turns.iter().position(RunTurn::is_empty);
    if let Some(index) = empty.filter(|_| !connection.completed_handshake) {
        return Err(RpcError::invalid_params(format!(
            "runs.record_turns: turn {index} is empty; give it a prompt, a tool, parameters or an output"
        )));
    }
    let runs = &connection.hub.runs;
    let recorded = runs.record_turns(&connection.caller, &run_id, turns);
    recorded_answer(connection, &run_id, recorded.await?, &ignored)
}

#[derive(Deserialize)]
struct RecordModelTurnParams {
    run_id: String,
    #[serde(flatten)]
    turn: ModelTurn,
}

pub(super) async fn record_model_turn(
    connection: &Connection,
    params: &JsonObject,
) -> MethodResult {
    let (method, expected) = ("runs.record_model_turn", "{ run_id, turn_index, … }");
    let (RecordModelTurnParams { run_id, turn }, ignored) =
        parse(connection, method, expected, params)?;
    if turn.turn_index == 0 {
        return Err(RpcError::invalid_params(format!(
            "{method} requires {expected}: `turn_index` starts at 1"
        )));
    }
    let runs = &connection.hub.runs;
    let recorded = runs.record_model_turn(&connection.caller, &run_id, turn);
    recorded_answer(connection, &run_id, recorded.await?, &ignored)
}

/// Turns that were not recorded are an error. Clients of the original protocol read the reason from the result.
fn recorded_answer(
    connection: &Connection,
    run_id: &str,
    recorded: RecordOutcome,
    ignored: &[String],
) -> MethodResult {
    let answer = match recorded {
        RecordOutcome::Recorded { base_index, count } => {
            json!({"run_id": run_id, "base_index": base_index, "count": count, "ok": true})
        }
        RecordOutcome::Dropped(why) if connection.completed_handshake => {
            json!({"run_id": run_id, "base_index": 0, "count": 0, "ok": false, "dropped": why})
        }
        RecordOutcome::Dropped(why) => return Err(not_recorded(run_id, why)),
    };
    Ok(fields::with_ignored(answer, ignored))
}

fn not_recorded(run_id: &str, why: DropReason) -> RpcError {
    match why {
        DropReason::RunNotFound => RpcError::not_found(format!("unknown run_id `{run_id}`")),
        DropReason::RunTerminal => RpcError::run_terminal(format!(
            "run `{run_id}` is already terminal — no more turns are recorded"
        )),
        DropReason::RunTurnLimit => RpcError::limit(format!(
            "run `{run_id}` would exceed the limit of turns; none was recorded"
        )),
        DropReason::TurnTooLarge => RpcError::limit(
            "a turn is too large even without its large fields; none was recorded".to_owned(),
        ),
    }
}

pub(super) async fn cancel(connection: &Connection, params: &JsonObject) -> MethodResult {
    let usage = "runs.cancel requires { run_id, idempotency_key, reason }";
    let cancel: CancelRun = read(usage, params)?;
    let runs = &connection.hub.runs;
    Ok(runs.cancel(&connection.caller, cancel).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeParams {
    run_id: String,
}

pub(super) async fn resume(connection: &Connection, params: &JsonObject) -> MethodResult {
    let ResumeParams { run_id } = read("runs.resume requires { run_id }", params)?;
    let runs = &connection.hub.runs;
    let resumed = runs.resume(&connection.caller, &run_id).await?;
    Ok(json!({
        "run_id": resumed.run_id,
        "agent_id": resumed.agent_id,
        "client_id": resumed.client_id,
        "resumed_from_client_id": resumed.resumed_from,
    }))
}

#[derive(Deserialize)]
pub(super) struct ListParams {
    agent_id: Option<String>,
    status: Option<RunStatus>,
    cursor: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn list(connection: &Connection, params: &JsonObject) -> MethodResult {
    let expected = "{ agent_id, status?, cursor?, limit? }";
    let (list, ignored) = parse::<ListParams>(connection, "runs.list", expected, params)?;
    let cursor = list.cursor.unwrap_or(0);
    let filter = ListRuns {
        agent_id: list.agent_id.clone(),
        status: list.status,
        cursor,
        limit: list.limit,
    };
    let runs = &connection.hub.runs;
    let page = runs.list(&connection.caller, filter).await?;
    let mut answer = json!({"agent_id": list.agent_id, "runs": page.runs});
    if list.cursor.is_some() || list.limit.is_some() {
        answer["cursor"] = json!(cursor);
        answer["limit"] = json!(page.limit);
    }
    set_if_some(&mut answer, "next_cursor", page.next_cursor);
    Ok(fields::with_ignored(answer, &ignored))
}

#[derive(Deserialize)]
pub(super) struct PageParams {
    run_id: String,
    cursor: Option<u64>,
    limit: Option<usize>,
}

const PAGE_PARAMS: &str = "{ run_id, cursor?, limit? }";

fn set_if_some(answer: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        answer[name] = value.into();
    }
}

fn not_found(run_id: &str) -> Value {
    json!({"run_id": run_id, "not_found": true})
}

pub(super) async fn get_trace(connection: &Connection, params: &JsonObject) -> MethodResult {
    let (page, ignored) = parse::<PageParams>(connection, "runs.get_trace", PAGE_PARAMS, params)?;
    let (run_id, cursor, limit) = (page.run_id, page.cursor, page.limit);
    let cursor = cursor.unwrap_or(0);
    let runs = &connection.hub.runs;
    let trace = runs.trace(&connection.caller, &run_id, cursor, limit);
    let Some(trace) = trace.await? else {
        return Ok(not_found(&run_id));
    };
    let mut answer = json!({
        "run_id": run_id,
        "agent_id": trace.agent_id,
        "records": trace.records,
        "cursor": cursor,
    });
    set_if_some(&mut answer, "limit", limit);
    set_if_some(&mut answer, "next_cursor", trace.next_cursor);
    Ok(fields::with_ignored(answer, &ignored))
}

pub(super) async fn subscribe(connection: &mut Connection, params: &JsonObject) -> MethodResult {
    let (page, ignored) = parse::<PageParams>(connection, "runs.subscribe", PAGE_PARAMS, params)?;
    let (run_id, cursor, limit) = (page.run_id, page.cursor, page.limit);
    connection.check_subscriptions(&run_id)?;
    let runs = &connection.hub.runs;
    let caller = &connection.caller;
    if cursor.is_none() && limit.is_none() {
        let Some(snapshot) = runs.subscribe(caller, &run_id).await? else {
            return Ok(not_found(&run_id));
        };
        let answer = json!({
            "run_id": run_id,
            "agent_id": snapshot.agent_id,
            "cursor": snapshot.turns.len(),
            "turns_so_far": snapshot.turns,
            "status": snapshot.status,
        });
        connection.announce(&run_id, &snapshot.agent_id, snapshot.follower);
        return Ok(fields::with_ignored(answer, &ignored));
    }
    let cursor = cursor.unwrap_or(0);
    let page = runs.subscribe_paged(caller, &run_id, cursor, limit).await?;
    let Some(page) = page else {
        return Ok(not_found(&run_id));
    };
    let mut answer = json!({
        "run_id": run_id,
        "agent_id": page.agent_id,
        "turns": page.turns,
        "cursor": cursor,
        "limit": page.limit,
        "live_cursor": page.live_cursor,
        "status": page.status,
        "subscribed": page.follower.is_some(),
    });
    set_if_some(&mut answer, "next_cursor", page.next_cursor);
    if let Some(follower) = page.follower {
        connection.announce(&run_id, &page.agent_id, follower);
    }
    Ok(fields::with_ignored(answer, &ignored))
}

#[derive(Deserialize)]
pub(super) struct UnsubscribeParams {
    run_id: String,
}

pub(super) fn unsubscribe(connection: &mut Connection, params: &JsonObject) -> MethodResult {
    let (UnsubscribeParams { run_id }, ignored) =
        parse(connection, "runs.unsubscribe", "{ run_id }", params)?;
    let removed = connection.unsubscribe(&run_id);
    let answer = json!({"run_id": run_id, "removed": removed});
    Ok(fields::with_ignored(answer, &ignored))
}

/// Sends each record to a subscriber, waiting for room so that none is dropped. If the log cannot be read, the connection is closed with the reason,
/// because the client would not notice a gap.
pub(crate) async fn follow(
    outbox: Outbox,
    run_id: String,
    agent_id: String,
    mut follower: Follower,
) {
    loop {
        match follower.next().await {
            Ok(Some(event)) => {
                let event = json!({
                    "run_id": run_id,
                    "agent_id": agent_id,
                    "cursor": event.cursor,
                    "status": event.status,
                    "record": event.record,
                });
                let notification = frame::notification("runs.trace.event", &event);
                if !outbox.send(notification).await {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(run_id, %error, "a subscription cannot continue");
                return outbox.close(1011, "a run cannot be read any more").await;
            }
        }
    }
}
