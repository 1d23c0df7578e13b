//! `runs.*`: parsing of parameters and serialization of responses; [`Runs`](crate::Runs) implements the rules.

use crate::{CancelRun, Dropped, Follower, ListRuns, Recorded, RunEvent, StartRun};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::runs::{ModelTurn, RunOutcome, RunStatus, RunTurn};

use super::{fields, params as read};
use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::frame;
use crate::rpc::hub::Answer;
use crate::rpc::outbox::Outbox;

use fields::Params;

pub(super) async fn start(connection: &Connection, params: &Params) -> Answer {
    let wants = "runs.start requires { intent, agent_id?, agent_name?, outcome_description? }";
    let start: StartRun = read(wants, params)?;
    let ignored = fields::check(connection, "runs.start", params)?;
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
    fields::tell(&mut answer, &ignored);
    Ok(answer)
}

#[derive(Deserialize)]
pub(super) struct Complete {
    run_id: String,
    outcome: RunOutcome,
}

pub(super) async fn complete(connection: &Connection, params: &Params) -> Answer {
    let Complete { run_id, outcome } = read("runs.complete requires { run_id, outcome }", params)?;
    let ignored = fields::check(connection, "runs.complete", params)?;
    let runs = &connection.hub.runs;
    runs.complete(&connection.caller, &run_id, outcome).await?;
    let mut answer = json!({"run_id": run_id, "ok": true});
    fields::tell(&mut answer, &ignored);
    Ok(answer)
}

#[derive(Deserialize)]
pub(super) struct RecordTurns {
    run_id: String,
    turns: Vec<RunTurn>,
}

pub(super) async fn record_turns(connection: &Connection, params: &Params) -> Answer {
    let RecordTurns { run_id, turns } =
        read("runs.record_turns requires { run_id, turns }", params)?;
    let ignored = fields::check(connection, "runs.record_turns", params)?;
    // The original protocol records such turns.
    let empty = turns.iter().position(RunTurn::is_empty);
    if let Some(index) = empty.filter(|_| !connection.has_shaken_hands) {
        return Err(RpcError::invalid_params(format!(
            "runs.record_turns: turn {index} says nothing; give it a prompt, a tool, parameters or an output"
        )));
    }
    let runs = &connection.hub.runs;
    let recorded = runs
        .record_turns(&connection.caller, &run_id, turns)
        .await?;
    recorded_answer(connection, &run_id, recorded, &ignored)
}

#[derive(Deserialize)]
struct RecordModelTurn {
    run_id: String,
    #[serde(flatten)]
    turn: ModelTurn,
}

pub(super) async fn record_model_turn(connection: &Connection, params: &Params) -> Answer {
    let wants = "runs.record_model_turn requires { run_id, turn_index, … }";
    let RecordModelTurn { run_id, turn } = read(wants, params)?;
    let ignored = fields::check(connection, "runs.record_model_turn", params)?;
    if turn.turn_index == 0 {
        return Err(RpcError::invalid_params(format!(
            "{wants}: `turn_index` starts at 1"
        )));
    }
    let runs = &connection.hub.runs;
    let recorded = runs
        .record_model_turn(&connection.caller, &run_id, turn)
        .await?;
    recorded_answer(connection, &run_id, recorded, &ignored)
}

/// Turns that were not recorded are an error. Clients of the original protocol read the reason from the result.
fn recorded_answer(
    connection: &Connection,
    run_id: &str,
    recorded: Recorded,
    ignored: &[String],
) -> Answer {
    let mut answer = match recorded {
        Recorded::Kept { base_index, count } => {
            json!({"run_id": run_id, "base_index": base_index, "count": count, "ok": true})
        }
        Recorded::Dropped(why) if connection.has_shaken_hands => {
            json!({"run_id": run_id, "base_index": 0, "count": 0, "ok": false, "dropped": why})
        }
        Recorded::Dropped(why) => return Err(not_recorded(run_id, why)),
    };
    fields::tell(&mut answer, ignored);
    Ok(answer)
}

fn not_recorded(run_id: &str, why: Dropped) -> RpcError {
    match why {
        Dropped::RunNotFound => RpcError::not_found(format!("unknown run_id `{run_id}`")),
        Dropped::RunTerminal => RpcError::run_terminal(format!(
            "run `{run_id}` is already terminal — no more turns are recorded"
        )),
        Dropped::RunTurnLimit => RpcError::limit(format!(
            "run `{run_id}` has as many turns as it may have, or would have more with these; none was recorded"
        )),
        Dropped::TurnTooLarge => RpcError::limit(
            "a turn is too large, also without its heavy fields; none was recorded".to_owned(),
        ),
    }
}

pub(super) async fn cancel(connection: &Connection, params: &Params) -> Answer {
    let wants = "runs.cancel requires { run_id, idempotency_key, reason }";
    let cancel: CancelRun = read(wants, params)?;
    Ok(connection
        .hub
        .runs
        .cancel(&connection.caller, cancel)
        .await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    run_id: String,
}

pub(super) async fn resume(connection: &Connection, params: &Params) -> Answer {
    let Resume { run_id } = read("runs.resume requires { run_id }", params)?;
    let resumed = connection
        .hub
        .runs
        .resume(&connection.caller, &run_id)
        .await?;
    Ok(json!({
        "run_id": resumed.run_id,
        "agent_id": resumed.agent_id,
        "client_id": resumed.client_id,
        "resumed_from_client_id": resumed.resumed_from,
    }))
}

#[derive(Deserialize)]
pub(super) struct List {
    agent_id: Option<String>,
    status: Option<RunStatus>,
    cursor: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn list(connection: &Connection, params: &Params) -> Answer {
    let wants = "runs.list requires { agent_id, status?, cursor?, limit? }";
    let List {
        agent_id,
        status,
        cursor,
        limit,
    } = read(wants, params)?;
    let ignored = fields::check(connection, "runs.list", params)?;
    let is_paged = cursor.is_some() || limit.is_some();
    let list = ListRuns {
        agent_id: agent_id.clone(),
        status,
        cursor: cursor.unwrap_or(0),
        limit,
    };
    let page = connection.hub.runs.list(&connection.caller, list).await?;
    let mut answer = json!({"agent_id": agent_id, "runs": page.runs});
    if is_paged {
        answer["cursor"] = json!(cursor.unwrap_or(0));
        answer["limit"] = json!(page.limit);
    }
    if let Some(next) = page.next_cursor {
        answer["next_cursor"] = json!(next);
    }
    fields::tell(&mut answer, &ignored);
    Ok(answer)
}

#[derive(Deserialize)]
pub(super) struct Pages {
    run_id: String,
    cursor: Option<u64>,
    limit: Option<usize>,
}

fn not_found(run_id: &str) -> Value {
    json!({"run_id": run_id, "not_found": true})
}

pub(super) async fn get_trace(connection: &Connection, params: &Params) -> Answer {
    let wants = "runs.get_trace requires { run_id, cursor?, limit? }";
    let Pages {
        run_id,
        cursor,
        limit,
    } = read(wants, params)?;
    let ignored = fields::check(connection, "runs.get_trace", params)?;
    let cursor = cursor.unwrap_or(0);
    let runs = &connection.hub.runs;
    let Some(trace) = runs
        .trace(&connection.caller, &run_id, cursor, limit)
        .await?
    else {
        return Ok(not_found(&run_id));
    };
    let mut answer = json!({
        "run_id": run_id,
        "agent_id": trace.agent_id,
        "records": trace.records,
        "cursor": cursor,
    });
    if limit.is_some() {
        answer["limit"] = json!(limit);
    }
    if let Some(next) = trace.next_cursor {
        answer["next_cursor"] = json!(next);
    }
    fields::tell(&mut answer, &ignored);
    Ok(answer)
}

pub(super) async fn subscribe(connection: &mut Connection, params: &Params) -> Answer {
    let wants = "runs.subscribe requires { run_id, cursor?, limit? }";
    let Pages {
        run_id,
        cursor,
        limit,
    } = read(wants, params)?;
    let ignored = fields::check(connection, "runs.subscribe", params)?;
    connection.check_subscriptions(&run_id)?;
    let runs = &connection.hub.runs;
    let caller = &connection.caller;
    if cursor.is_none() && limit.is_none() {
        let Some(snapshot) = runs.subscribe(caller, &run_id).await? else {
            return Ok(not_found(&run_id));
        };
        let mut answer = json!({
            "run_id": run_id,
            "agent_id": snapshot.agent_id,
            "cursor": snapshot.turns.len(),
            "turns_so_far": snapshot.turns,
            "status": snapshot.status,
        });
        fields::tell(&mut answer, &ignored);
        connection.announce(&run_id, &snapshot.agent_id, snapshot.follower);
        return Ok(answer);
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
    if let Some(next) = page.next_cursor {
        answer["next_cursor"] = json!(next);
    }
    fields::tell(&mut answer, &ignored);
    if let Some(follower) = page.follower {
        connection.announce(&run_id, &page.agent_id, follower);
    }
    Ok(answer)
}

#[derive(Deserialize)]
pub(super) struct Unsubscribe {
    run_id: String,
}

pub(super) fn unsubscribe(connection: &mut Connection, params: &Params) -> Answer {
    let Unsubscribe { run_id } = read("runs.unsubscribe requires { run_id }", params)?;
    let ignored = fields::check(connection, "runs.unsubscribe", params)?;
    let removed = connection.unsubscribe(&run_id);
    let mut answer = json!({"run_id": run_id, "removed": removed});
    fields::tell(&mut answer, &ignored);
    Ok(answer)
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
            Ok(Some(RunEvent {
                cursor,
                status,
                record,
            })) => {
                let event = json!({
                    "run_id": run_id,
                    "agent_id": agent_id,
                    "cursor": cursor,
                    "status": status,
                    "record": record,
                });
                if !outbox
                    .send(frame::notification("runs.trace.event", &event))
                    .await
                {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(run_id, %error, "a subscription cannot go on");
                return outbox.close(1011, "a run cannot be read any more").await;
            }
        }
    }
}
