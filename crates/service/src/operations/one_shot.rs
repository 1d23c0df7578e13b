//! A single prompt with its answer: an archived thread with one turn.

use windlass_protocol::api::{Call, CallFuture, Parts, Stream};
use windlass_protocol::operations as op;
use windlass_protocol::stream::{OneShot, OneShotStarted};
use windlass_protocol::{CreateThread, StartTurn};
use windlass_runtime::OnBusy;

use super::RequestContext;
use super::one_shot_frames::OneTurn;
use super::start::{TurnPurpose, said};
use crate::error::Result;
use crate::handle::Handle;
use crate::service::Service;
use crate::subscribers::Subscriber;

impl Handle<op::StreamOneTurn> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::StreamOneTurn>,
    ) -> Result<Stream<Vec<u8>>> {
        Ok(Box::new(self.one_shot(context, call.request).await?))
    }
}

impl Parts<Vec<u8>> for OneTurn {
    fn next(&mut self) -> CallFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(self.next_frame().await) })
    }
}

impl Service {
    /// Creates a thread for one turn, and starts the turn.
    pub async fn one_shot(&self, context: &RequestContext, request: OneShot) -> Result<OneTurn> {
        let prompt = said(&request.prompt)?.to_owned();
        let place = Subscriber::take(self, &context.caller)?;
        let draft = CreateThread {
            workspace: request.workspace.clone(),
            archived: Some(true),
            ..CreateThread::default()
        };
        let draft = self.draft(context, draft.with_policy(&request.policy()))?;
        let turn = StartTurn {
            output_schema: request.output_schema,
            ..StartTurn::default()
        };
        let input = self.input(context, &draft, &prompt, turn)?;
        let found = self.open_thread(context, draft).await?;
        let id = found.id;
        let (turn_id, begun) = self
            .begin(context, found, input, TurnPurpose::Answer(OnBusy::Refuse))
            .await?;
        let started = OneShotStarted {
            thread_id: begun.thread.id,
            turn_id: begun.turn.id,
            model: begun.thread.model,
            mode: begun.thread.mode,
            workspace: begun.thread.workspace,
        };
        let events = self.runtime.subscribe_after(id, 0).await?;
        Ok(OneTurn::new(&started, turn_id, events, place))
    }
}
