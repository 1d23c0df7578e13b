//! The shared usage of a turn and all its subagents.
//!
//! The budgets of the root turn apply to the whole tree. Usage is recorded in the journals of its sessions. They are read once, when a process first
//! makes a call of the tree; later usage is counted as it happens. All reservations are made under one lock, so that concurrent subagents cannot
//! exceed a limit together.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;
use windlass_core::budget::{Budget, Budgets, Charge, Limit, Refused, Reserve, Spent, cost};
use windlass_core::derived_id::child_of_step;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::turn_request::ParentTurn;
use windlass_core::typed_id::{ExecId, SessionId, TurnId};
use windlass_store::{Journal, Reservation, StreamKey};
use windlass_turn::Thread;

use crate::errors::from_journal;
use crate::inner::Inner;
use crate::thread::StepScope;
use crate::turn_context::TurnContext;
use windlass_core::lock::lock;

/// Number of records read at a time.
const AT_ONCE: usize = 512;
/// Maximum number of trees cached in memory; evicted trees are read from the journal again.
const MAX_TREES: usize = 256;

/// The trees of this process, by the session of their root.
#[derive(Default)]
pub(crate) struct UsageTrees(Mutex<HashMap<SessionId, Arc<UsageTree>>>);

impl UsageTrees {
    fn contains(&self, root: SessionId) -> bool {
        lock(&self.0).contains_key(&root)
    }

    fn get_or_create(&self, root: SessionId) -> Arc<UsageTree> {
        let mut trees = lock(&self.0);
        if trees.len() >= MAX_TREES && !trees.contains_key(&root) {
            trees.retain(|_, tree| Arc::strong_count(tree) > 1);
        }
        Arc::clone(trees.entry(root).or_default())
    }
}

#[derive(Default)]
struct UsageTree {
    usage: OnceCell<Mutex<TreeUsage>>,
    /// The running model calls of this process. They use nothing until they are admitted.
    running_calls: Mutex<HashSet<ExecId>>,
}

#[derive(Default)]
struct TreeUsage {
    thread: UsageTotal,
    turns: HashMap<TurnId, UsageTotal>,
    /// Reservations of running calls, and of calls that a previous process did not finish.
    held: HashMap<ExecId, ReservedStep>,
}

/// The reservation of a step.
struct ReservedStep {
    turn: TurnId,
    amount: Reserve,
    /// 1 for a model call. The calls of an external agent's run are unknown.
    model_calls: u64,
}

#[derive(Default)]
struct UsageTotal {
    amount: Reserve,
    model_calls: u64,
    /// Tool calls: the number read from the journals, and those counted since.
    tool_calls: u64,
    tools: HashSet<ExecId>,
}

impl UsageTotal {
    fn from_spent(spent: &Spent, least: &Reserve) -> Self {
        Self {
            amount: Reserve {
                tokens: spent.tokens(least),
                micro_usd: spent.micro_usd(least),
            },
            model_calls: spent.model_calls,
            tool_calls: spent.tool_calls,
            tools: HashSet::new(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.amount = self.amount.plus(other.amount);
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.tools.extend(&other.tools);
    }

    fn tool_calls(&self) -> u64 {
        self.tool_calls + self.tools.len() as u64
    }
}

impl TreeUsage {
    /// Returns the limit that refuses a further model call.
    fn refuses_call(
        &self,
        turn_id: TurnId,
        budgets: &Budgets,
        reserve: Reserve,
    ) -> Option<(String, Refused)> {
        let none = UsageTotal::default();
        let of_turn = self.turns.get(&turn_id).unwrap_or(&none);
        let scopes = [
            ("turn", &budgets.turn, of_turn, Some(turn_id)),
            ("thread", &budgets.thread, &self.thread, None),
        ];
        scopes.into_iter().find_map(|(scope, budget, used, turn)| {
            let is_meant = |of: &TurnId| turn.is_none_or(|turn| turn == *of);
            let held = self.held.values().filter(|held| is_meant(&held.turn));
            let (mut amount, mut calls) = (used.amount, used.model_calls);
            for held in held {
                amount = amount.plus(held.amount);
                calls += held.model_calls;
            }
            let refused = refuses(budget, amount, calls, reserve)?;
            Some((format!("{scope}_{}", refused.limit.as_str()), refused))
        })
    }

    fn add(&mut self, turn_id: TurnId, used: &UsageTotal) {
        self.thread.add(used);
        self.turns.entry(turn_id).or_default().add(used);
    }

    /// Removes turns without running steps, except one.
    fn trim(&mut self, but: TurnId) {
        let held: HashSet<TurnId> = self.held.values().map(|held| held.turn).collect();
        self.turns
            .retain(|turn, _| *turn == but || held.contains(turn));
    }
}

fn refuses(budget: &Budget, used: Reserve, calls: u64, reserve: Reserve) -> Option<Refused> {
    [
        (
            Limit::Usd,
            budget.micro_usd,
            used.micro_usd,
            reserve.micro_usd,
        ),
        (Limit::Tokens, budget.tokens, used.tokens, reserve.tokens),
        (Limit::ModelCalls, budget.model_calls, calls, 0),
    ]
    .into_iter()
    .find_map(|(limit, allowed, used, reserve)| Refused::check(limit, allowed?, used, reserve))
}

/// One turn's share of its tree's budget.
#[derive(Clone)]
pub(crate) struct SharedBudget {
    inner: Arc<Inner>,
    tree: Arc<UsageTree>,
    root: SessionId,
    turn: TurnId,
    budgets: Budgets,
    /// The root's own usage, if it never had a subagent.
    alone: Option<(Spent, Spent)>,
}

impl SharedBudget {
    /// Returns the turn's share of its tree's budget; `None` if no budget is set or the turn has no subagents. Once this process counts a tree, it
    /// continues to count it, because a later turn may have a budget again.
    pub(crate) fn for_turn(
        inner: &Arc<Inner>,
        context: &TurnContext,
        thread: &Thread,
    ) -> Option<Self> {
        let turn = thread.turn()?;
        let is_root = context.parent.is_none();
        let is_alone = is_root && thread.children().is_empty();
        if is_alone && !context.starts_agents && !inner.trees.contains(thread.session_id()) {
            return None;
        }
        let budget = Self::join(inner, context, (thread.session_id(), turn.id))?;
        let alone = is_alone.then(|| (turn.spent, *thread.spent()));
        Some(Self { alone, ..budget })
    }

    /// Returns the share of a turn that now shares its budget with others.
    pub(crate) fn for_tool_call(scope: &StepScope<'_>) -> Option<Self> {
        let budget = Self::for_turn(scope.inner, scope.context, scope.thread)?;
        Some(Self {
            alone: None,
            ..budget
        })
    }

    /// Returns the share of a turn that an external agent executes, if it is a subagent's or its thread has had subagents.
    pub(crate) fn for_run(
        inner: &Arc<Inner>,
        context: &TurnContext,
        has_agents: bool,
        own: (SessionId, TurnId),
    ) -> Option<Self> {
        let is_alone = context.parent.is_none() && !has_agents;
        if is_alone && !inner.trees.contains(own.0) {
            return None;
        }
        Self::join(inner, context, own)
    }

    fn join(inner: &Arc<Inner>, context: &TurnContext, own: (SessionId, TurnId)) -> Option<Self> {
        let above = |parent: ParentTurn| (parent.root_session_id, parent.root_turn_id);
        let (root, turn) = context.parent.map_or(own, above);
        let budgets = context.plan.budgets;
        if budgets == Budgets::default() && !inner.trees.contains(root) {
            return None;
        }
        Some(Self {
            inner: Arc::clone(inner),
            tree: inner.trees.get_or_create(root),
            root,
            turn,
            budgets,
            alone: None,
        })
    }

    /// Registers a model call before it reserves.
    pub(crate) fn register_call(&self, exec_id: ExecId) {
        lock(&self.tree.running_calls).insert(exec_id);
    }

    async fn usage(&self) -> Result<&Mutex<TreeUsage>> {
        let least = &self.inner.settings.reserve;
        let opening = async || {
            let usage = match &self.alone {
                Some((turn, thread)) => TreeUsage {
                    thread: UsageTotal::from_spent(thread, least),
                    turns: [(self.turn, UsageTotal::from_spent(turn, least))].into(),
                    held: HashMap::new(),
                },
                None => {
                    let journal = &*self.inner.backends.journal;
                    read(journal, self.root, &self.tree.running_calls, least).await?
                }
            };
            Ok(Mutex::new(usage))
        };
        self.tree.usage.get_or_try_init(opening).await
    }

    /// Counts a tool call; returns the refusal text for the model if it exceeds the limit.
    pub(crate) async fn count_tool_call(&self, exec_id: ExecId) -> Result<Option<String>> {
        let limits = [
            ("turn", self.budgets.turn.tool_calls),
            ("thread", self.budgets.thread.tool_calls),
        ];
        if limits.iter().all(|(_, limit)| limit.is_none()) {
            return Ok(None);
        }
        let mut usage = lock(self.usage().await?);
        let of_turn = usage.turns.entry(self.turn).or_default();
        of_turn.tools.insert(exec_id);
        let in_turn = of_turn.tool_calls();
        usage.thread.tools.insert(exec_id);
        let used = [in_turn, usage.thread.tool_calls()];
        let mut all = limits.into_iter().zip(used);
        let refused = all.find(|((_, limit), used)| limit.is_some_and(|limit| *used > limit));
        Ok(refused.map(|((scope, limit), _)| {
            format!(
                "not run: the {scope}'s budget of {} tool calls, which all its agents share, is used up. Make no more calls; \
                 say what you have found and what is left to do",
                limit.unwrap_or_default()
            )
        }))
    }

    /// Reserves the budget of a step; a new reservation of a step replaces its previous one.
    pub(crate) async fn reserve(&self, next: &Reservation) -> Result<()> {
        let mut usage = lock(self.usage().await?);
        usage.held.remove(&next.exec_id);
        usage.trim(self.turn);
        self.refuse(&usage, next)?;
        let is_call = lock(&self.tree.running_calls).contains(&next.exec_id);
        let held = ReservedStep {
            turn: self.turn,
            amount: next.amount,
            model_calls: u64::from(is_call),
        };
        usage.held.insert(next.exec_id, held);
        Ok(())
    }

    /// Refuses a step if the remaining budget is too small. Nothing is reserved.
    pub(crate) async fn check(&self, next: &Reservation) -> Result<()> {
        self.refuse(&lock(self.usage().await?), next)
    }

    fn refuse(&self, usage: &TreeUsage, next: &Reservation) -> Result<()> {
        match usage.refuses_call(self.turn, &self.budgets, next.amount) {
            Some((name, refused)) => Err(AgentLoopError::BudgetExceeded(format!(
                "{name}: {refused}, together with the agents that work for the turn. Raise {name} and send \"continue\""
            ))),
            None => Ok(()),
        }
    }

    /// Settles a model call.
    pub(crate) fn settle_call(&self, exec_id: ExecId, reserve: Reserve, charge: Charge<'_>) {
        lock(&self.tree.running_calls).remove(&exec_id);
        let model_calls = u64::from(!matches!(charge, Charge::Nothing));
        // A call that never reserved has cost nothing.
        self.settle(exec_id, (reserve, Reserve::default()), charge, model_calls);
    }

    /// Settles a run of an external agent.
    pub(crate) fn settle_run(&self, exec_id: ExecId, reserve: Reserve, charge: Charge<'_>) {
        self.settle(exec_id, (reserve, reserve), charge, 0);
    }

    fn settle(
        &self,
        exec_id: ExecId,
        (unpriced, unreserved): (Reserve, Reserve),
        charge: Charge<'_>,
        model_calls: u64,
    ) {
        let Some(usage) = self.tree.usage.get() else {
            return;
        };
        let mut usage = lock(usage);
        let held = usage.held.remove(&exec_id);
        let amount = match charge {
            Charge::Usage(usage) => Reserve {
                tokens: usage.total_tokens(),
                micro_usd: cost(usage).unwrap_or(unpriced.micro_usd),
            },
            Charge::Reservation => held.map_or(unreserved, |held| held.amount),
            Charge::Nothing => Reserve::default(),
        };
        let used = UsageTotal {
            amount,
            model_calls,
            ..UsageTotal::default()
        };
        usage.add(self.turn, &used);
    }
}

/// Usage recorded for one turn.
#[derive(Default)]
struct TurnTotals {
    id: Option<TurnId>,
    is_for_another: bool,
    spent: Spent,
    tools: HashSet<ExecId>,
    /// The model call without a recorded end.
    open: Option<ExecId>,
    children: Vec<SessionId>,
}

/// Sums the usage in the journals of a tree. A call without an end was cut off with a previous process, unless this process is making it now.
async fn read(
    journal: &dyn Journal,
    root: SessionId,
    running_calls: &Mutex<HashSet<ExecId>>,
    least: &Reserve,
) -> Result<TreeUsage> {
    let mut usage = TreeUsage::default();
    let mut seen = HashSet::from([root]);
    let mut next = vec![(root, None)];
    while let Some((session_id, of_turn)) = next.pop() {
        for turn in turns_of(journal, session_id).await? {
            // A turn that a client started in a subagent's session has no parent turn.
            if of_turn.is_some() && !turn.is_for_another {
                continue;
            }
            let Some(root_turn) = of_turn.or(turn.id) else {
                continue;
            };
            let mut used = UsageTotal {
                tool_calls: 0,
                ..UsageTotal::from_spent(&turn.spent, least)
            };
            used.tools = turn.tools;
            usage.add(root_turn, &used);
            let cut_off = turn.open.filter(|open| !lock(running_calls).contains(open));
            if let Some(exec_id) = cut_off {
                let held = ReservedStep {
                    turn: root_turn,
                    amount: turn.spent.reserve(least),
                    model_calls: 1,
                };
                usage.held.insert(exec_id, held);
            }
            let new = turn
                .children
                .into_iter()
                .filter(|child| seen.insert(*child));
            next.extend(new.map(|child| (child, Some(root_turn))));
        }
    }
    Ok(usage)
}

async fn turns_of(journal: &dyn Journal, session_id: SessionId) -> Result<Vec<TurnTotals>> {
    let (stream, mut after) = (StreamKey::from(session_id), 0);
    let mut turns = Vec::new();
    let mut open = TurnTotals::default();
    loop {
        let page = journal.read(&stream, after, AT_ONCE).await;
        let events = page.map_err(from_journal)?.events;
        let Some(last) = events.last() else { break };
        after = last.seq();
        for event in &events {
            if matches!(event.data, EventData::TurnStarted(_)) {
                turns.push(std::mem::take(&mut open));
            }
            open.take(event);
        }
    }
    turns.push(open);
    Ok(turns)
}

impl TurnTotals {
    fn take(&mut self, event: &Event) {
        let exec_id = event.context.exec_id;
        match &event.data {
            EventData::TurnStarted(data) => self.id = Some(data.turn_id),
            EventData::InputMessage(data) => {
                let request = data.message.turn_request();
                self.is_for_another |= request.is_some_and(|request| request.parent.is_some());
            }
            EventData::ReasonStarted(_) | EventData::ContextCompacting(_) => self.open = exec_id,
            EventData::ReasonCompleted(_) | EventData::ContextCompacted(_) => self.open = None,
            data @ (EventData::LlmGeneration(_) | EventData::BackendCompleted(_)) => {
                self.open = None;
                self.spent.settle(data);
            }
            EventData::ToolStarted(_) => self.tools.extend(exec_id),
            EventData::SubagentStarted(data) => {
                let own = exec_id.map(child_of_step);
                self.children
                    .extend(own.filter(|own| *own == data.child_session_id));
            }
            data if data.ends_turn() => self.open = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::events::{LlmGenerationMetadata, TokenUsage};

    use super::*;

    #[test]
    fn tree_usage_equals_thread_usage() {
        let counted = |input_tokens| LlmGenerationMetadata {
            success: true,
            usage: Some(TokenUsage {
                input_tokens,
                ..TokenUsage::default()
            }),
            ..LlmGenerationMetadata::default()
        };
        let mut spent = Spent::default();
        spent.add_call(&counted(5_000));
        for _ in 0..4 {
            spent.add_call(&LlmGenerationMetadata::default());
        }
        spent.add_call(&counted(150_000));
        let least = Reserve {
            tokens: 100,
            micro_usd: 0,
        };
        let used = UsageTotal::from_spent(&spent, &least).amount.tokens;
        assert_eq!(used, spent.tokens(&least));
        assert_eq!(used, 5_000 + 4 * 5_000 + 150_000);
    }
}
