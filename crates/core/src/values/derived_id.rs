//! New ids from one uuid, without a random choice.

use uuid::Uuid;

use crate::typed_id::{ExecId, MessageId, SessionId};

/// Returns the ID of the message that a model call produces. It follows from the step, so that deltas need not contain it.
#[must_use]
pub fn message_of_step(exec_id: ExecId) -> MessageId {
    MessageId::from_uuid(derive(exec_id.uuid(), 0))
}

/// Returns the step of the `n`th call of a message, from 0.
#[must_use]
pub fn step_of_call(message_id: MessageId, n: usize) -> ExecId {
    ExecId::from_uuid(derive(message_id.uuid(), n as u64))
}

/// Returns the ID of the step for the `n`th part of an external agent's answer, from 1.
#[must_use]
pub fn step_of_part(exec_id: ExecId, n: u64) -> ExecId {
    ExecId::from_uuid(derive(exec_id.uuid(), n))
}

/// Returns the ID of the session that a subagent call creates; the same for every repeat of the call.
#[must_use]
pub fn child_of_step(exec_id: ExecId) -> SessionId {
    SessionId::from_uuid(derive(exec_id.uuid(), u64::MAX))
}

/// Returns the `n`th uuid that is derived from another: the same time stamp, other random bits.
///
/// Two rounds of a 64-bit mixer spread `n` over the 74 random bits of a UUIDv7, so that collisions of derived IDs are as
/// unlikely as those of random ones.
#[must_use]
pub fn derive(base: Uuid, n: u64) -> Uuid {
    const TIME: u128 = 0xffff_ffff_ffff << 80;
    const VERSION: u128 = 0x7 << 76;
    const VARIANT: u128 = 0b10 << 62;
    const RAND_A: u128 = 0xfff << 64;
    const RAND_B: u128 = (1 << 62) - 1;
    let seed = base.as_u128();
    let (high, low) = ((seed >> 64) as u64, seed as u64);
    let a = mix(low ^ mix(n.wrapping_add(0x5851_f42d_4c95_7f2d)));
    let b = mix(a ^ high);
    let random = (u128::from(b) << 64) | u128::from(a);
    Uuid::from_u128((seed & TIME) | VERSION | VARIANT | (random & (RAND_A | RAND_B)))
}

/// The finaliser of the SplitMix64 generator.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn derived_ids_differ_and_have_the_same_time_and_version() {
        let base = Uuid::from_u128(0x0190_0000_0000_7abc_8def_0123_4567_89ab);
        let ids: HashSet<_> = (0..10_000).map(|n| derive(base, n)).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids {
            assert_eq!(id.get_version_num(), 7);
            assert_eq!(id.as_u128() >> 80, base.as_u128() >> 80);
        }
        assert_eq!(derive(base, 1), derive(base, 1));
        assert_ne!(derive(derive(base, 1), 2), derive(derive(base, 2), 1));
    }
}
