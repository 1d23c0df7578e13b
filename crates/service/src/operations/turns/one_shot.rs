//! A single prompt with its answer: an archived thread with one turn.

use windlass_protocol::api::{CallFuture, Parts, ResponseStream};
use windlass_protocol::stream::{OneShot, OneShotStarted};
use windlass_protocol::{CreateThread, StartTurn};
use windlass_runtime::OnBusy;

use crate::limits::subscribers::Subscriber;
use crate::operations::prelude::*;
use crate::operations::turns::one_shot_frames::OneTurn;
use crate::operations::turns::start::{TurnPurpose, require_prompt};

impl Handle<op::StreamOneTurn> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::StreamOneTurn>,
    ) -> Result<ResponseStream<Vec<u8>>> {
        Ok(Box::new(self.one_shot(ctx, call.request).await?))
    }
}

impl Parts<Vec<u8>> for OneTurn {
    fn next(&mut self) -> CallFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(self.next_frame().await) })
    }
}

impl Service {
    /// Creates a thread for one turn, and starts the turn.
    pub async fn one_shot(&self, ctx: &RequestContext, request: OneShot) -> Result<OneTurn> {
        let prompt = require_prompt(&request.prompt)?.to_owned();
        let subscriber = Subscriber::take(self, &ctx.caller)?;
        let draft = CreateThread {
            workspace: request.workspace.clone(),
            archived: Some(true),
            ..CreateThread::default()
        };
        let draft = self.draft(ctx, draft.with_policy(&request.policy()))?;
        let turn = StartTurn {
            output_schema: request.output_schema,
            ..StartTurn::default()
        };
        let input = self.input(ctx, &draft, &prompt, turn)?;
        let found = self.open_thread(ctx, draft).await?;
        let id = found.id;
        let (turn_id, turn_started) = self
            .begin(ctx, found, input, TurnPurpose::Answer(OnBusy::Refuse))
            .await?;
        let started = OneShotStarted {
            thread_id: turn_started.thread.id,
            turn_id: turn_started.turn.id,
            model: turn_started.thread.model,
            mode: turn_started.thread.mode,
            workspace: turn_started.thread.workspace,
        };
        let events = self.runtime.subscribe_after(id, 0).await?;
        Ok(OneTurn::new(&started, turn_id, events, subscriber))
    }
}
