//! Calls that require approval.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::remembered_calls::call_digest;
use windlass_core::tools::ToolCall;
use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
use windlass_turn::TurnPlan;

use crate::world::Step::{
    After, Allow, AllowInProject, AllowRest, Deny, Done, Interrupt, Model, Say,
};
use crate::world::{Step, check, plan, transcript};

const ASKED: &[Step] = &[Say("hi"), Model("", &[("a", "ask")])];

fn patient() -> TurnPlan {
    TurnPlan {
        wait_timeout: Some(Duration::from_secs(60)),
        ..plan()
    }
}

fn asked_and(step: Step) -> Vec<Step> {
    [ASKED, &[step]].concat()
}

#[test]
fn a_call_does_not_run_before_it_is_allowed() {
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
fn an_allowed_call_runs() {
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
fn a_call_that_is_allowed_with_the_rest_of_the_turn_is_the_last_that_is_asked_for() {
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
fn a_refused_call_is_answered_and_the_turn_goes_on() {
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
fn the_first_decision_wins_and_an_equal_one_changes_nothing() {
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
fn a_call_that_nobody_decides_about_counts_as_refused() {
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
fn an_interrupt_refuses_what_waits() {
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
fn nothing_is_approved_that_was_not_asked_for() {
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
fn a_rule_lets_a_call_run_that_would_be_asked_about() {
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
fn a_call_that_was_allowed_for_good_asks_nobody_unless_a_rule_refuses_it() {
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
fn a_call_that_is_allowed_for_good_is_not_asked_about_again_in_its_turn() {
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
fn a_rule_asks_about_a_call_that_would_run() {
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
fn what_a_rule_refuses_does_not_run_though_everything_is_allowed_and_holds_up_nothing() {
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
