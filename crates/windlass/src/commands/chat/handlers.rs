//! The handlers of the slash commands.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass_core::bounds::one_line;
use windlass_protocol::operations::{AgentRunsQuery, TurnPath};
use windlass_protocol::{
    Call, ForkThread, Mode, PatchThread, StartTurn, TokenUsage, Turn, UndoThread,
};

use super::{ChatEnd, ChatLoop, commands, diff, watch};
use crate::cli::{note, printable};
use crate::client::calls::{self, by_id};
use crate::client::ids::short;
use crate::client::thread_session::{self, ApprovalMode, ThreadSession};
use crate::commands::attachments;
use crate::commands::threads::{archive, note_restored};
use crate::terminal::spent;

impl ChatLoop {
    /// Returns the thread, which exists after the first prompt.
    fn thread(&self) -> Result<&ThreadSession> {
        let session = self.session.as_ref();
        session.context("there is no thread yet; it starts with the first prompt")
    }

    pub(super) async fn help(&mut self, _: &str) -> Result<()> {
        self.skills = self.skills_of_repository().await;
        commands::help(&self.skills);
        Ok(())
    }

    pub(super) async fn quit(&mut self, _: &str) -> Result<()> {
        self.end = Some(ChatEnd::Quit);
        Ok(())
    }

    pub(super) async fn new_chat(&mut self, prompt: &str) -> Result<()> {
        self.session = None;
        self.turn_options = StartTurn::default();
        if prompt.is_empty() {
            return Ok(());
        }
        self.prompt(prompt).await
    }

    pub(super) async fn resume_other(&mut self, id: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let id = thread_session::find(&self.daemon, id).await?;
        self.turn_options = StartTurn::default();
        self.resume(&id).await
    }

    /// Asks in a fork, so that the thread itself does not change.
    pub(super) async fn aside(&mut self, text: &str) -> Result<()> {
        ensure!(!text.is_empty(), "the question is missing: /btw PROMPT");
        self.daemon.ensure_connected().await?;
        let mut aside = match &self.session {
            Some(session) => {
                let call = Call::new(by_id(&session.thread.id), ForkThread::default());
                let fork = self.daemon.api().fork_thread(call).await?;
                ThreadSession::resume(&self.daemon, &fork.id, self.approvals).await?
            }
            None => self.begin().await?,
        };
        aside.turn_options.clone_from(&self.turn_options);
        let watched = async {
            let turn = aside.start_turn(text).await?;
            watch(turn, &mut self.keys, &self.details).await
        };
        let watched = watched.await;
        // The fork is archived, whether the turn succeeded or not.
        let archived = calls::archive(&*self.daemon.api(), &aside.thread.id).await;
        self.take(watched?);
        archived?;
        Ok(())
    }

    pub(super) async fn show(&mut self, number: &str) -> Result<()> {
        self.show_detail(number)
    }

    pub(super) async fn undo(&mut self, rest: &str) -> Result<()> {
        ensure!(matches!(rest, "" | "files"), "use `/undo` or `/undo files`");
        self.daemon.ensure_connected().await?;
        let session = self.thread()?;
        let request = UndoThread {
            files: rest == "files",
            ..UndoThread::default()
        };
        let call = Call::new(by_id(&session.thread.id), request);
        let undone = self.daemon.api().undo_thread(call).await?;
        archive(&self.daemon, &session.thread.id).await;
        note(format!("undone: {}", undone.original_user_text));
        match &undone.files {
            Some(files) => note_restored(files, None),
            None => note(format!(
                "files were not restored; `windlass threads rewind {} --files` restores them",
                short(&session.thread.id)
            )),
        }
        self.session =
            Some(ThreadSession::resume(&self.daemon, &undone.thread.id, self.approvals).await?);
        Ok(())
    }

    pub(super) async fn model(&mut self, name: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        if name.is_empty() {
            return self.show_models().await;
        }
        self.daemon.check_model(name).await?;
        self.patch(PatchThread {
            model: Some(name.to_owned()),
            ..PatchThread::default()
        })
        .await?;
        self.new_thread.model = Some(name.to_owned());
        self.turn_options.model = None;
        note(format!("{} is used from now on", one_line(name)));
        Ok(())
    }

    /// Lists the configured models of the usable providers, and marks the current one.
    async fn show_models(&self) -> Result<()> {
        let api = self.daemon.api();
        let current = match (&self.turn_options.model, &self.session) {
            (Some(model), _) => model.clone(),
            (None, Some(session)) => {
                let thread = &session.thread;
                let qualified = thread.qualified_model.clone();
                qualified.unwrap_or_else(|| thread.model.clone())
            }
            (None, None) => match &self.new_thread.model {
                Some(model) => model.clone(),
                None => {
                    let config = api.get_config(Call::new((), ())).await?;
                    qualified(&config.provider, &config.model)
                }
            },
        };
        note(format!("current model: {}", one_line(&current)));
        let listed = api.list_providers(Call::new((), ())).await?;
        for provider in listed.providers.iter().filter(|provider| provider.usable) {
            let models = api.list_provider_models(Call::new(by_id(&provider.id), ()));
            for model in models.await?.models {
                let name = qualified(&provider.id, &model.id);
                let mark = if name == current { "*" } else { " " };
                note(format!("{mark} {}", one_line(&name)));
            }
        }
        note(
            "/model provider/model uses another; every model of a provider with a key can be named",
        );
        Ok(())
    }

    pub(super) async fn mode(&mut self, name: &str) -> Result<()> {
        if name.is_empty() {
            let mode = match &self.session {
                Some(session) => session.thread.mode,
                None => self.new_thread.mode.unwrap_or_default(),
            };
            note(format!(
                "mode {mode}; `/mode` with agent, plan, operate or yolo sets another"
            ));
            return Ok(());
        }
        self.set_mode(name.parse()?).await
    }

    pub(super) async fn plan(&mut self, prompt: &str) -> Result<()> {
        if prompt.is_empty() {
            self.set_mode(Mode::Plan).await
        } else {
            self.prompt_in(prompt, Some(Mode::Plan)).await
        }
    }

    async fn set_mode(&mut self, mode: Mode) -> Result<()> {
        self.patch(PatchThread {
            mode: Some(mode),
            ..PatchThread::default()
        })
        .await?;
        self.new_thread.mode = Some(mode);
        note(match mode {
            Mode::Agent => "mode agent: the agent asks before it changes something",
            Mode::Plan => "mode plan: the agent changes nothing; /mode agent ends it",
            Mode::Operate => "mode operate: the agent may also start other agents",
            Mode::Yolo => "mode yolo: all calls are allowed without asking, commands included",
        });
        Ok(())
    }

    /// Changes the thread, if there is one.
    async fn patch(&mut self, change: PatchThread) -> Result<()> {
        if let Some(session) = &mut self.session {
            self.daemon.ensure_connected().await?;
            let api = self.daemon.api();
            session.thread = calls::patch(&*api, &session.thread.id, change).await?;
        }
        Ok(())
    }

    pub(super) async fn allow_all(&mut self, _: &str) -> Result<()> {
        self.approvals = ApprovalMode::All;
        note("all calls are allowed from now on");
        Ok(())
    }

    pub(super) async fn diff(&mut self, _: &str) -> Result<()> {
        let cwd = self.session.as_ref().map_or(&*self.cwd, ThreadSession::cwd);
        diff::show(cwd, &self.data).await
    }

    pub(super) async fn context(&mut self, _: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let id = &self.thread()?.thread.id;
        let call = Call::new(by_id(id), ());
        let usage = self.daemon.api().get_thread_context(call).await?;
        let mut text = format!(
            "about {} of {} tokens of {} are used ({} %)",
            usage.estimated_input_tokens,
            usage.context_window_tokens,
            one_line(&usage.model),
            usage.used_percent
        );
        if usage.auto_compact_enabled {
            let above = usage.auto_compact_threshold_tokens;
            text.push_str(&format!("; above {above} the history is compacted"));
        }
        note(text);
        Ok(())
    }

    pub(super) async fn compact(&mut self, reason: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        self.thread()?;
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        if let Some(session) = &self.session {
            let watched = watch(
                session.compact(reason).await?,
                &mut self.keys,
                &self.details,
            )
            .await?;
            self.take(watched);
        }
        self.context("").await
    }

    pub(super) async fn cost(&mut self, _: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let id = &self.thread()?.thread.id;
        let turns = calls::all_turns(&*self.daemon.api(), id).await?;
        let turn = Turn {
            usage: Some(total(turns.iter().filter_map(|turn| turn.usage.as_ref()))),
            duration_ms: Some(turns.iter().filter_map(|turn| turn.duration_ms).sum()),
            ..Turn::default()
        };
        let count = match turns.len() {
            1 => "1 turn".to_owned(),
            count => format!("{count} turns"),
        };
        let parts: Vec<_> = [count].into_iter().chain(spent(&turn)).collect();
        note(parts.join(", "));
        Ok(())
    }

    pub(super) async fn image(&mut self, path: &str) -> Result<()> {
        ensure!(!path.is_empty(), "the file is missing: /image PATH");
        let image = attachments::image(&self.cwd.join(path))?;
        self.attachments.push(image);
        note(format!("{} is sent with the next prompt", one_line(path)));
        Ok(())
    }

    pub(super) async fn file(&mut self, path: &str) -> Result<()> {
        ensure!(!path.is_empty(), "the file is missing: /file PATH");
        let file = attachments::file(&self.cwd.join(path))?;
        self.attachments.push(file);
        note(format!("{} is sent with the next prompt", one_line(path)));
        Ok(())
    }

    pub(super) async fn queue(&mut self, rest: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let id = self.thread()?.thread.id.clone();
        let api = self.daemon.api();
        let queue = api.list_queue(Call::new(by_id(&id), ())).await?.queue;
        if let Some(number) = rest.strip_prefix("remove") {
            let position = number.trim().parse::<usize>().ok();
            let input = position.and_then(|position| queue.get(position.checked_sub(1)?));
            let input = input.context("use `/queue remove N` with a number of the list")?;
            let path = TurnPath {
                id,
                turn_id: input.turn_id.clone(),
            };
            api.remove_queued_input(Call::new(path, ())).await?;
            note(format!("removed: {}", one_line(&input.input_summary)));
            return Ok(());
        }
        ensure!(rest.is_empty(), "use `/queue` or `/queue remove N`");
        if queue.is_empty() {
            note("no prompt waits for its turn");
        }
        for (position, input) in queue.iter().enumerate() {
            let summary = one_line(&input.input_summary);
            note(format!("{}. {summary}", position + 1));
        }
        Ok(())
    }

    pub(super) async fn agents(&mut self, _: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let query = AgentRunsQuery {
            parent: Some(self.thread()?.thread.id.clone()),
            ..AgentRunsQuery::default()
        };
        let call = Call::new((), ()).with_query(query);
        let runs = self.daemon.api().list_agent_runs(call).await?.runs;
        if runs.is_empty() {
            note("this thread has started no agents");
        }
        for run in runs {
            let status = json!(run.status);
            let status = status.as_str().unwrap_or_default();
            note(format!(
                "{}  {status}  {}",
                short(&run.thread_id),
                one_line(&run.spec.objective)
            ));
        }
        Ok(())
    }

    pub(super) async fn mcp(&mut self, _: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let api = self.daemon.api();
        let servers = api.list_mcp_servers(Call::new((), ())).await?.servers;
        if servers.is_empty() {
            note("no MCP servers are configured; see [mcp_servers] of windlass.toml");
        }
        for server in servers {
            let status = if server.connected {
                "connected"
            } else {
                "not connected"
            };
            let at = server.command.or(server.url).unwrap_or_default();
            note(format!(
                "{}  {status}  {}",
                one_line(&server.name),
                one_line(&at)
            ));
        }
        Ok(())
    }

    pub(super) async fn rename(&mut self, title: &str) -> Result<()> {
        ensure!(!title.is_empty(), "the title is missing: /rename TITLE");
        self.thread()?;
        self.patch(PatchThread {
            title: Some(title.to_owned()),
            ..PatchThread::default()
        })
        .await?;
        note(format!("the title is now: {}", one_line(title)));
        Ok(())
    }

    /// Writes the thread into a new file that only the user can read, because it contains everything that the agent read.
    pub(super) async fn export(&mut self, file: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let id = &self.thread()?.thread.id;
        let file = match file {
            "" => self.cwd.join(format!("windlass-{}.jsonl", short(id))),
            file => self.cwd.join(Path::new(file)),
        };
        let shown = printable(&file);
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file);
        let mut out = created.with_context(|| format!("{shown} cannot be created"))?;
        calls::export(&*self.daemon.api(), id, None, &mut out).await?;
        out.flush()?;
        note(format!("written to {shown}"));
        Ok(())
    }
}

fn qualified(provider: &str, model: &str) -> String {
    if provider.is_empty() || model.contains('/') || model == provider {
        model.to_owned()
    } else {
        format!("{provider}/{model}")
    }
}

/// Sums the usage of turns.
fn total<'a>(usages: impl Iterator<Item = &'a TokenUsage>) -> TokenUsage {
    usages.fold(TokenUsage::default(), |sum, usage| TokenUsage {
        input_tokens: sum.input_tokens + usage.input_tokens,
        output_tokens: sum.output_tokens + usage.output_tokens,
        cost_usd: match (sum.cost_usd, usage.cost_usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        },
        ..sum
    })
}
