//! The place of each message in a conversation, folded from events.
//!
//! The order of the journal is not the order of the conversation: results stand in the order of their calls, what a
//! running turn is told stands at the next model call, and an input that waits stands where its turn starts. The turn
//! machine places messages by these rules while it works; this fold gives the same places without the messages, for
//! whoever keeps only an index of them.

use crate::derived_id::derive;
use crate::events::{Event, EventData};
use crate::message::{ContentPart, Message, MessageRole};
use crate::typed_id::{ExecId, MessageId, TurnId};

/// A message that has found its place: the one behind all that were placed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The message.
    pub message_id: MessageId,
    /// Who speaks.
    pub role: MessageRole,
    /// The number of the event that brought it, which may be older than the one that placed it.
    pub seq: u64,
}

/// What has been said and has no place yet. Between turns there is nothing.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    turn: Option<Turn>,
}

#[derive(Debug, Clone)]
struct Turn {
    id: TurnId,
    input_message_id: MessageId,
    steered: Vec<Placed>,
    calls: Vec<Call>,
    /// How many results, counted from the first call, have their place.
    placed: usize,
}

#[derive(Debug, Clone)]
struct Call {
    exec_id: ExecId,
    result: Option<Placed>,
}

impl Transcript {
    /// Moves on by one event; `place` is given the messages that find their place, in order. Total: what does not fit
    /// places nothing.
    pub fn apply(&mut self, event: &Event, mut place: impl FnMut(Placed)) {
        match &event.data {
            EventData::TurnStarted(data) => {
                self.turn = Some(Turn {
                    id: data.turn_id,
                    input_message_id: data.input_message_id,
                    steered: Vec::new(),
                    calls: Vec::new(),
                    placed: 0,
                });
            }
            EventData::InputMessage(data) => {
                let message = placed(event, &data.message);
                match &mut self.turn {
                    Some(turn) if turn.input_message_id != data.message.id => {
                        turn.steered.push(message);
                    }
                    _ => place(message),
                }
            }
            EventData::ReasonStarted(_) => {
                if let (Some(turn), Some(_)) = (&mut self.turn, event.context.exec_id) {
                    turn.steered.drain(..).for_each(place);
                    turn.expect_calls(Vec::new());
                }
            }
            EventData::OutputMessageCompleted(data) => {
                if let Some(turn) = &mut self.turn {
                    turn.expect_calls(calls_of(&data.message));
                }
                place(placed(event, &data.message));
            }
            EventData::ToolCompleted(_) => {
                if let Some(turn) = &mut self.turn {
                    turn.complete_call(event, place);
                }
            }
            EventData::TurnCompleted(data) => self.end_turn(data.turn_id, place),
            EventData::TurnFailed(data) => self.end_turn(data.turn_id, place),
            EventData::TurnCancelled(data) => self.end_turn(data.turn_id, place),
            EventData::TranscriptRepaired(data) => place(Placed {
                message_id: data.message_id,
                role: MessageRole::ToolResult,
                seq: event.seq(),
            }),
            _ => {}
        }
    }

    /// What was said to the turn and never read stays in the conversation.
    fn end_turn(&mut self, turn_id: TurnId, place: impl FnMut(Placed)) {
        if let Some(turn) = self.turn.take_if(|turn| turn.id == turn_id) {
            turn.steered.into_iter().for_each(place);
        }
    }
}

impl Turn {
    fn expect_calls(&mut self, calls: Vec<Call>) {
        (self.calls, self.placed) = (calls, 0);
    }

    fn complete_call(&mut self, event: &Event, mut place: impl FnMut(Placed)) {
        let mut calls = self.calls.iter_mut();
        let call = calls.find(|call| event.context.exec_id == Some(call.exec_id));
        if let Some(call) = call {
            call.result.get_or_insert(Placed {
                message_id: MessageId::from_uuid(event.id.uuid()),
                role: MessageRole::ToolResult,
                seq: event.seq(),
            });
        }
        while let Some(Call {
            result: Some(result),
            ..
        }) = self.calls.get(self.placed)
        {
            place(*result);
            self.placed += 1;
        }
    }
}

fn placed(event: &Event, message: &Message) -> Placed {
    Placed {
        message_id: message.id,
        role: message.role,
        seq: event.seq(),
    }
}

/// The steps of an answer's calls; their ids follow from the message.
fn calls_of(message: &Message) -> Vec<Call> {
    let parts = message.content.iter();
    let calls = parts.filter(|part| matches!(part, ContentPart::ToolCall(_)));
    let steps = calls.zip(0..);
    steps
        .map(|(_, n)| Call {
            exec_id: ExecId::from_uuid(derive(message.id.uuid(), n)),
            result: None,
        })
        .collect()
}
