//! The fold of places that indexes use gives the conversation that the machine has.

use windlass_core::transcript::Transcript;
use windlass_core::typed_id::SessionId;
use windlass_turn::Thread;

use super::player::play;

#[test]
fn messages_have_the_places_that_the_machine_gives_them() {
    for seed in 0..800 {
        let mut thread = Thread::new(SessionId::from_seed(1));
        let (mut transcript, mut placed) = (Transcript::default(), Vec::new());
        for event in play(seed) {
            thread.evolve(&event).unwrap();
            transcript.apply(&event, |message| placed.push(message));
            let said = thread.history().iter();
            let said: Vec<_> = said.map(|message| (message.id, message.role)).collect();
            let places: Vec<_> = placed.iter().map(|m| (m.message_id, m.role)).collect();
            assert_eq!(places, said, "seed {seed}, event {}", event.seq());
        }
    }
}
