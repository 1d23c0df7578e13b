//! The place of each message in a conversation, folded from events.
//!
//! The order of the journal is not the order of the conversation: results stand in the order of their calls, what a
//! running turn is told stands at the next model call, and an input that waits stands where its turn starts. The turn
//! machine places messages by these rules while it works; this fold gives the same places without the messages, for
//! whoever keeps only an index of them.

use std::collections::VecDeque;

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
    /// What stands behind all that has its place, in order. Whole agents make calls while others are open, so a message may wait for
    /// the results of calls before it.
    waiting: VecDeque<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Message(Placed),
    Result {
        exec_id: ExecId,
        result: Option<Placed>,
    },
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
                    waiting: VecDeque::new(),
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
            EventData::ReasonStarted(_) | EventData::BackendStarted(_) => {
                if let (Some(turn), Some(_)) = (&mut self.turn, event.context.exec_id) {
                    turn.steered.drain(..).for_each(place);
                    turn.waiting.clear();
                }
            }
            EventData::OutputMessageCompleted(data) => {
                let message = placed(event, &data.message);
                match &mut self.turn {
                    Some(turn) => {
                        turn.waiting.push_back(Piece::Message(message));
                        turn.waiting.extend(results_of(&data.message));
                        turn.settle(place);
                    }
                    None => place(message),
                }
            }
            EventData::BackendSteered(data) => {
                if let Some(turn) = &mut self.turn
                    && let Some(at) = turn.place_of_steer(data.message_id)
                {
                    let message = turn.steered.remove(at);
                    turn.waiting.push_back(Piece::Message(message));
                    turn.settle(place);
                }
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
    fn place_of_steer(&self, message_id: MessageId) -> Option<usize> {
        let mut steered = self.steered.iter();
        steered.position(|message| message.message_id == message_id)
    }

    fn complete_call(&mut self, event: &Event, place: impl FnMut(Placed)) {
        let open = self.waiting.iter_mut().find_map(|piece| match piece {
            Piece::Result { exec_id, result } if event.context.exec_id == Some(*exec_id) => {
                Some(result)
            }
            Piece::Result { .. } | Piece::Message(_) => None,
        });
        if let Some(result) = open {
            result.get_or_insert(Placed {
                message_id: MessageId::from_uuid(event.id.uuid()),
                role: MessageRole::ToolResult,
                seq: event.seq(),
            });
        }
        self.settle(place);
    }

    /// Places what no call before it holds up.
    fn settle(&mut self, mut place: impl FnMut(Placed)) {
        while let Some(
            Piece::Message(message)
            | Piece::Result {
                result: Some(message),
                ..
            },
        ) = self.waiting.front()
        {
            place(*message);
            self.waiting.pop_front();
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

/// Where the results of an answer's calls stand; the ids of the steps follow from the message.
fn results_of(message: &Message) -> impl Iterator<Item = Piece> {
    let parts = message.content.iter();
    let calls = parts.filter(|part| matches!(part, ContentPart::ToolCall(_)));
    calls.zip(0..).map(|(_, n)| Piece::Result {
        exec_id: ExecId::from_uuid(derive(message.id.uuid(), n)),
        result: None,
    })
}
