//! Calls that require approval.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::remembered_calls::call_digest;
use windlass_core::tools::ToolCall;
use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
use windlass_turn::TurnPlan;

use crate::world::ThreadAction::{
    After, Allow, AllowInProject, AllowRest, Deny, Done, Interrupt, Model, Say,
};
use crate::world::{ThreadAction, check, plan, transcript};

const ASKED: &[ThreadAction] = &[Say("hi"), Model("", &[("a", "ask")])];

fn patient() -> TurnPlan {
    TurnPlan {
        wait_timeout: Some(Duration::from_secs(60)),
        ..plan()
    }
}

fn asked_and(step: ThreadAction) -> Vec<ThreadAction> {
    [ASKED, &[step]].concat()
}

#[test]
fn call_does_not_run_before_its_approval() {
    check(
        plan(),
        &ASKED[..1],
        ASKED[1],
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "approval.required",
        ],
    );
    check(plan(), ASKED, Done("a"), &["! stale"]);
}

#[test]
fn approved_call_runs() {
    for name in ["a", "#a"] {
        check(
            plan(),
            ASKED,
            Allow(name),
            &["approval.decided", "=> run a"],
        );
    }
}

#[test]
fn approval_for_the_turn_covers_later_calls() {
    let again = [ASKED, &[AllowRest("a"), Done("a")]].concat();
    check(
        plan(),
        &again,
        Model("", &[("b", "ask")]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "=> run b",
        ],
    );
    let next_turn = [&again[..], &[Model("Done.", &[]), Say("more")]].concat();
    check(
        plan(),
        &next_turn,
        Model("", &[("c", "ask")]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "approval.required",
        ],
    );
}

#[test]
fn denied_call_is_answered_and_the_turn_continues() {
    check(
        plan(),
        ASKED,
        Deny("a"),
        &[
            "approval.decided",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
    transcript(
        plan(),
        &asked_and(Deny("a")),
        &[
            "user hi",
            "agent [a]",
            "tool_result a: The call was not approved",
        ],
    );
}

#[test]
fn first_decision_wins_and_an_equal_one_changes_nothing() {
    check(plan(), &asked_and(Allow("a")), Allow("a"), &[]);
    check(
        plan(),
        &asked_and(Allow("a")),
        Deny("a"),
        &["! it was answered differently before"],
    );
    check(plan(), &asked_and(Deny("a")), Deny("a"), &[]);
}

#[test]
fn expired_approval_counts_as_denied() {
    check(patient(), ASKED, After(59), &[]);
    check(
        patient(),
        ASKED,
        After(60),
        &[
            "approval.timeout",
            "approval.decided",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
    check(
        patient(),
        &asked_and(After(60)),
        Allow("a"),
        &["! it was answered differently before"],
    );
}

#[test]
fn interrupt_denies_pending_approvals() {
    check(
        plan(),
        ASKED,
        Interrupt,
        &[
            "turn.interrupt_requested",
            "approval.decided",
            "tool.completed",
            "turn.cancelled",
            "session.idled",
        ],
    );
    check(
        plan(),
        &asked_and(Interrupt),
        Allow("a"),
        &["! it was answered differently before"],
    );
}

#[test]
fn approval_without_a_request_is_rejected() {
    check(
        plan(),
        &[Say("hi"), Model("", &[("a", "client")])],
        Allow("a"),
        &["! it does not wait for this kind of answer"],
    );
    check(
        plan(),
        ASKED,
        Allow("z"),
        &["! the session has no such call"],
    );
    check(plan(), &[], Allow("a"), &["! the session has no such call"]);
}

fn ruled(tool: &str, action: ApprovalAction) -> TurnPlan {
    let rule = ApprovalRule {
        tool: tool.to_owned(),
        arguments: Default::default(),
        command: None,
        action,
    };
    TurnPlan {
        approvals: Arc::new(ApprovalRules {
            rules: vec![rule],
            ..ApprovalRules::default()
        }),
        ..plan()
    }
}

#[test]
fn allow_rule_skips_the_approval() {
    check(
        ruled("ask", ApprovalAction::Allow),
        &ASKED[..1],
        ASKED[1],
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "=> run a",
        ],
    );
}

#[test]
fn project_approval_applies_unless_a_rule_denies() {
    let remembered = |tool: &str| {
        let call = ToolCall {
            id: "of another turn".to_owned(),
            name: tool.to_owned(),
            arguments: serde_json::json!({}),
        };
        Arc::from([call_digest(&call).to_string()])
    };
    let asked = |plan: TurnPlan, then: &[&str]| {
        let begins = [
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
        ];
        check(plan, &ASKED[..1], ASKED[1], &[&begins, then].concat());
    };
    let allowed = TurnPlan {
        remembered: remembered("ask"),
        ..plan()
    };
    asked(allowed, &["=> run a"]);
    let other = TurnPlan {
        remembered: remembered("other"),
        ..plan()
    };
    asked(other, &["approval.required"]);
    let refused = TurnPlan {
        remembered: remembered("ask"),
        ..ruled("ask", ApprovalAction::Deny)
    };
    let refusal = [
        "tool.completed",
        "act.completed",
        "reason.started",
        "=> model",
    ];
    asked(refused, &refusal);
}

#[test]
fn project_approval_applies_within_its_turn() {
    let again = [ASKED, &[AllowInProject("a"), Done("a")]].concat();
    let begins = [
        "llm.generation",
        "output.message.completed",
        "reason.completed",
        "act.started",
        "tool.started",
    ];
    let same = [&begins[..], &["=> run b"]].concat();
    check(plan(), &again, Model("", &[("b", "ask")]), &same);
}

#[test]
fn ask_rule_requires_an_approval() {
    let call = Model("", &[("a", "once")]);
    let asks = &[
        "llm.generation",
        "output.message.completed",
        "reason.completed",
        "act.started",
        "tool.started",
        "approval.required",
    ];
    check(ruled("on*", ApprovalAction::Ask), &ASKED[..1], call, asks);
}

#[test]
fn deny_rule_applies_even_if_the_turn_approves_all() {
    let refused = || ruled("serial", ApprovalAction::Deny);
    check(
        refused(),
        &ASKED[..1],
        Model("", &[("a", "serial"), ("b", "serial")]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "tool.completed",
            "tool.started",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
    let allowed = [ASKED, &[AllowRest("a"), Done("a")]].concat();
    check(
        refused(),
        &allowed,
        Model("", &[("b", "serial"), ("c", "ask")]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "tool.completed",
            "tool.started",
            "=> run c",
        ],
    );
}
