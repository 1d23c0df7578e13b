//! Output of external agents.

use std::collections::HashSet;

use windlass_core::backend::{BackendEvent, BackendSpec, SessionChoice, SessionTotals};
use windlass_external_agents::{
    Acp, AcpSettings, Claude, Codex, CodexSettings, Protocol, SteerId, Step,
};

/// Lines of Claude's stream-json.
pub fn agent_claude(data: &[u8]) {
    let new = SessionChoice::New { id: None };
    holds(
        &mut Claude::new(new, SessionTotals::default()),
        CLAUDE,
        data,
    );
}

/// Lines of Codex's app-server.
pub fn agent_codex(data: &[u8]) {
    holds(
        &mut Codex::new(&spec(), CodexSettings::default()),
        CODEX,
        data,
    );
}

/// Lines of the Agent Client Protocol.
pub fn agent_acp(data: &[u8]) {
    holds(&mut Acp::new(&spec(), AcpSettings::gemini()), ACP, data);
}

fn spec() -> BackendSpec {
    BackendSpec::new("fuzz", "/srv")
}

/// Bytes that are no lines of an agent seldom get far, so they are choices among such lines, some of them damaged.
fn holds(protocol: &mut dyn Protocol, pool: &[&str], data: &[u8]) {
    let mut rules = StepRules::default();
    rules.check(&protocol.begin());
    for line in data.split(|byte| *byte == b'\n') {
        rules.check(&protocol.line(line));
    }
    for choice in data.chunks(3) {
        let [line, damage, place] = [0, 1, 2].map(|n| choice.get(n).copied().unwrap_or(0));
        let can_begin = protocol.readiness() != windlass_external_agents::Readiness::NotYet;
        if !rules.is_in_turn && can_begin && damage % 8 != 7 {
            rules.begin_turn();
            rules.check(&protocol.prompt("x"));
        }
        let mut line = pool[usize::from(line) % pool.len()].as_bytes().to_vec();
        let at = usize::from(place) * line.len() / 256;
        match damage % 8 {
            0 => line.truncate(at),
            1 => line[at] = damage,
            2 => rules.check(&protocol.interrupt()),
            3 => rules.check(&protocol.steer(SteerId(1), "y").unwrap_or_default()),
            _ => {}
        }
        rules.check(&protocol.line(&line));
    }
}

/// What must hold of the steps of one process.
#[derive(Default)]
struct StepRules {
    started: HashSet<String>,
    ended: HashSet<String>,
    is_in_turn: bool,
}

impl StepRules {
    fn begin_turn(&mut self) {
        *self = Self {
            is_in_turn: true,
            ..Self::default()
        };
    }

    fn check(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Event(BackendEvent::ToolStarted(call)) => {
                    assert!(self.started.insert(call.id.clone()), "a call starts twice");
                }
                Step::Event(BackendEvent::ToolCompleted(result)) => {
                    assert!(
                        self.started.contains(&result.call_id),
                        "a call ends unstarted"
                    );
                    assert!(
                        self.ended.insert(result.call_id.clone()),
                        "a call ends twice"
                    );
                }
                Step::Event(BackendEvent::Text { .. }) => {
                    assert!(self.is_in_turn, "text outside of a turn");
                }
                Step::Ended(_) => {
                    assert!(self.is_in_turn, "an end without a turn");
                    self.is_in_turn = false;
                }
                Step::Send(line) => assert!(!line.contains('\n'), "two lines in one"),
                _ => {}
            }
        }
    }
}

const CLAUDE: &[&str] = &[
    r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#,
    r#"{"type":"system","subtype":"api_retry","retry_delay_ms":617,"error_status":500}"#,
    r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1"}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"He"}}}"#,
    r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"He"}]}}"#,
    r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}"#,
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x","is_error":true}]}}"#,
    r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1800000000}}"#,
    r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}"#,
    r#"{"type":"control_cancel_request","request_id":"r"}"#,
    r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.1,"usage":{"input_tokens":1}}"#,
    r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"total_cost_usd":0}"#,
];

const CODEX: &[&str] = &[
    r#"{"id":1,"result":{}}"#,
    r#"{"id":2,"result":{"thread":{"id":"t"},"model":"m"}}"#,
    r#"{"id":3,"result":{"turn":{"id":"u"}}}"#,
    r#"{"id":4,"error":{"code":-32600,"message":"no active turn to steer"}}"#,
    r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","itemId":"m1","delta":"He"}}"#,
    r#"{"method":"item/started","params":{"threadId":"t","item":{"type":"commandExecution","id":"c","command":"x"}}}"#,
    r#"{"method":"item/commandExecution/outputDelta","params":{"threadId":"t","itemId":"c","delta":"out"}}"#,
    r#"{"method":"item/completed","params":{"threadId":"t","item":{"type":"commandExecution","id":"c","status":"failed"}}}"#,
    r#"{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","id":"m2","text":"ok"}}}"#,
    r#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t","turnId":"u","tokenUsage":{"total":{"inputTokens":9,"cachedInputTokens":3}}}}"#,
    r#"{"method":"error","params":{"threadId":"t","willRetry":false,"error":{"message":"x","codexErrorInfo":"usageLimitExceeded"}}}"#,
    r#"{"id":0,"method":"item/commandExecution/requestApproval","params":{"itemId":"c","availableDecisions":["accept"]}}"#,
    r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed","error":null}}}"#,
    r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"status":"failed","error":{"message":"x"}}}}"#,
];

const ACP: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"r"}}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"x"}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","cost":{"amount":0.1,"currency":"USD"}}}}"#,
    r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"y","kind":"allow_once"}],"toolCall":{"toolCallId":"c","title":"x"}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/x"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":null}}"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}"#,
    r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"x","data":{"errorKind":"rate_limit"}}}"#,
];
