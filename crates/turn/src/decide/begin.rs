//! How an input starts a turn, is queued, or joins the running turn.

use std::time::Duration;

use windlass_core::events::{
    InputMessageData, InputQueuedData, OutputMessageCompletedData, SessionActivatedData,
    TranscriptRepairedData, TurnOutline, TurnStartedData, TurnSteeredData,
};
use windlass_core::items::{input_summary, plain_text};
use windlass_core::message::{ContentPart, InputMessage, Message, MessageRole};
use windlass_core::typed_id::{MessageId, TurnId};

use super::reason::whole_millis;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::{FailureDetails, OnBusy};

/// The position at which an input joins the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueEnd {
    First,
    Last,
}

impl Draft<'_> {
    pub(super) fn submit(
        &mut self,
        message: InputMessage,
        on_busy: OnBusy,
        timeout: Option<Duration>,
        requested_id: Option<TurnId>,
    ) -> Result<(), Rejected> {
        self.check_quota()?;
        check_input(&message)?;
        // The same input arrived again before its turn ended.
        if let Some(again) = requested_id.filter(|requested_id| self.is_open(*requested_id)) {
            return Err(Rejected::Busy(again));
        }
        let Some(turn) = self.turn() else {
            let next = self.thread.queue.front().map(|next| next.turn_id);
            match (next, on_busy) {
                (None, _) => {
                    let message = self.new_message(message);
                    self.start_turn(requested_id, message, timeout);
                }
                // The queued input is first; its turn is about to start.
                (Some(turn_id), OnBusy::Refuse) => return Err(Rejected::Busy(turn_id)),
                (Some(_), _) => {
                    self.check_queue_limit()?;
                    self.enqueue(requested_id, message, timeout, QueueEnd::Last);
                }
            }
            return Ok(());
        };
        let turn_id = turn.id;
        let waiting_for = turn.waiting_for();
        match (on_busy, waiting_for) {
            (OnBusy::Steer, _) => self.steer(None, message),
            (OnBusy::Interrupt, _) => {
                self.interrupt(None, Some("replaced by a new input".to_owned()))?;
                self.enqueue(requested_id, message, timeout, QueueEnd::First);
                Ok(())
            }
            // Queueing after a parked turn, which may never be answered, would look like a hang.
            (OnBusy::Queue | OnBusy::Refuse, Some(waiting_for)) => Err(Rejected::Waiting {
                turn_id,
                waiting_for,
            }),
            (OnBusy::Refuse, None) => Err(Rejected::Busy(turn_id)),
            (OnBusy::Queue, None) => {
                self.check_queue_limit()?;
                self.enqueue(requested_id, message, timeout, QueueEnd::Last);
                Ok(())
            }
        }
    }

    /// Returns whether a turn is running, parked or queued.
    fn is_open(&self, turn_id: TurnId) -> bool {
        self.turn().is_some_and(|turn| turn.id == turn_id) || self.thread.is_queued(turn_id)
    }

    /// A plan is valid only for its own input, which may have been cancelled in the meantime.
    pub(super) fn begin_queued(
        &mut self,
        turn_id: TurnId,
        failure: Option<FailureDetails>,
    ) -> Result<(), Rejected> {
        let next = match (self.turn(), self.thread.queue.front()) {
            (None, Some(next)) if next.turn_id == turn_id => next.clone(),
            (Some(turn), _) => return Err(Rejected::Busy(turn.id)),
            (None, _) => return Err(Rejected::NoTurn),
        };
        let failure = failure.or_else(|| self.quota_failure());
        let timeout = next.timeout_ms.map(Duration::from_millis);
        self.open_turn(next.turn_id, Message::clone(&next.message), timeout);
        match failure {
            None => {
                self.note_discovered();
                self.start_work();
            }
            Some(failure) => self.fail_turn(&failure),
        }
        Ok(())
    }

    /// Text for a turn that has ended does not reach the next one.
    pub(super) fn steer(
        &mut self,
        requested_id: Option<TurnId>,
        message: InputMessage,
    ) -> Result<(), Rejected> {
        let running = self.turn().map(|turn| turn.id);
        let turn_id = running.filter(|running| requested_id.is_none_or(|id| id == *running));
        let turn_id = turn_id.ok_or(Rejected::NoTurn)?;
        self.check_quota()?;
        self.check_queue_limit()?;
        check_input(&message)?;
        let message = self.new_message(message);
        self.turn_id = Some(turn_id);
        self.message_id = Some(message.id);
        let (message_id, text) = (message.id, plain_text(&message.content).into_owned());
        self.record(TurnSteeredData {
            turn_id,
            message_id,
            input_text: Some(text.clone()),
        });
        self.record_as(message_id.uuid(), None, InputMessageData { message });
        self.steer_backend(message_id, text);
        Ok(())
    }

    /// Adds a message of the host. Calls and results must pair up, because providers refuse other requests.
    pub(super) fn import(&mut self, message: Message) -> Result<(), Rejected> {
        message.check_turn_request()?;
        if self.turn().is_some() {
            return Err(Rejected::NotImportable("a turn is running"));
        }
        self.check_quota()?;
        let dangling = &self.thread.dangling;
        let id = message.id.uuid();
        self.message_id = Some(message.id);
        match message.role {
            MessageRole::Agent if !dangling.is_empty() => {
                Err(Rejected::NotImportable("earlier calls have no results yet"))
            }
            MessageRole::ToolResult
                if !dangling
                    .iter()
                    .any(|call| Some(call.id.as_str()) == message.tool_call_id()) =>
            {
                Err(Rejected::NotImportable(
                    "it does not answer an earlier call",
                ))
            }
            MessageRole::Agent => {
                self.record_as(id, None, OutputMessageCompletedData::new(message));
                Ok(())
            }
            MessageRole::System | MessageRole::User | MessageRole::ToolResult => {
                if message.role != MessageRole::ToolResult {
                    self.repair();
                }
                self.record_as(id, None, InputMessageData { message });
                Ok(())
            }
        }
    }

    fn start_turn(
        &mut self,
        requested_id: Option<TurnId>,
        message: Message,
        timeout: Option<Duration>,
    ) {
        let turn_id = requested_id.unwrap_or_else(|| TurnId::from_uuid(self.new_uuid()));
        self.open_turn(turn_id, message, timeout);
        self.note_discovered();
        self.start_work();
    }

    /// Records the tools of MCP servers if they changed since the last record, so that a long thread does not grow with every turn.
    fn note_discovered(&mut self) {
        let offered = self.plan().discovered.as_deref();
        if let Some(offered) = offered.filter(|it| it.digest != self.thread.discovered.digest) {
            self.record(offered.clone());
        }
    }

    fn open_turn(&mut self, turn_id: TurnId, message: Message, timeout: Option<Duration>) {
        self.repair();
        self.turn_id = Some(turn_id);
        self.message_id = Some(message.id);
        let input_message_id = message.id;
        let input_text = Some(plain_text(&message.content).into_owned());
        self.record(TurnStartedData {
            config: Some(self.plan().digest.clone()),
            deadline: self.deadline(timeout),
            outline: Some(self.outline_of(&message)),
            discovered: self.offered_digest(),
            ..TurnStartedData::new(turn_id, input_message_id)
        });
        self.record_as(message.id.uuid(), None, InputMessageData { message });
        self.record(SessionActivatedData {
            input_message_id,
            input_text,
        });
    }

    /// Returns the digest of the tools that MCP servers offer the turn.
    pub(super) fn offered_digest(&self) -> Option<String> {
        let offered = self.plan().discovered.as_ref()?;
        Some(offered.digest.clone()).filter(|digest| !digest.is_empty())
    }

    /// Returns the user-visible outline of a turn that a message starts.
    pub(super) fn outline_of(&self, message: &Message) -> TurnOutline {
        let request = message.turn_request();
        TurnOutline {
            input_summary: input_summary(message),
            model: Some(self.plan().model.clone()),
            created_at: Some(message.created_at).filter(|at| *at != self.now()),
            environment: request.and_then(|request| request.environment.clone()),
            labels: request.and_then(|request| request.labels.clone()),
            has_output_schema: request.is_some_and(|request| request.output_schema.is_some()),
            backend: self.plan().backend.as_ref().map(|it| it.name.clone()),
            ..TurnOutline::default()
        }
    }

    /// Records a result for every call without one, because providers refuse such requests.
    pub(super) fn repair(&mut self) {
        for call in self.thread.dangling.clone() {
            let id = self.new_uuid();
            let (call_id, name) = (call.id.clone(), call.name.clone());
            let data = TranscriptRepairedData::new(call_id, name, MessageId::from_uuid(id));
            self.record_as(id, None, data);
        }
    }

    fn enqueue(
        &mut self,
        requested_id: Option<TurnId>,
        message: InputMessage,
        timeout: Option<Duration>,
        end: QueueEnd,
    ) {
        let turn_id = requested_id.unwrap_or_else(|| TurnId::from_uuid(self.new_uuid()));
        let message = self.new_message(message);
        self.turn_id = Some(turn_id);
        self.message_id = Some(message.id);
        self.record(InputQueuedData {
            deadline_ms: timeout.map(whole_millis),
            ahead: (end == QueueEnd::First).then_some(true),
            ..InputQueuedData::new(turn_id, message)
        });
    }

    pub(super) fn new_message(&mut self, input: InputMessage) -> Message {
        let id = MessageId::from_uuid(self.new_uuid());
        input.into_message(id, self.now())
    }
}

/// Calls come from the model and results from the tools. In an input, either would be unpaired in the conversation.
pub(super) fn check_input(message: &InputMessage) -> Result<(), Rejected> {
    message.check_turn_request()?;
    match message.role {
        MessageRole::ToolResult => Err(UNPAIRED),
        _ => check_content(&message.content),
    }
}

const UNPAIRED: Rejected = Rejected::NotImportable("an input must not contain calls or results");

pub(super) fn check_content(content: &[ContentPart]) -> Result<(), Rejected> {
    let is_paired =
        |part: &ContentPart| matches!(part, ContentPart::ToolCall(_) | ContentPart::ToolResult(_));
    if content.iter().any(is_paired) {
        Err(UNPAIRED)
    } else {
        Ok(())
    }
}
