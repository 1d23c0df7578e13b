use proptest::prelude::*;

use super::*;

/// An event as it is written.
const EVENT: &str = r#"{"id":"event_01a1e1842004758fa33ce06d7828b444","type":"input.message","ts":"2026-11-15T23:21:34.980001765Z","session_id":"session_00000000000000000000000000005e57","context":{"turn_id":"turn_01a1e184200472238275d027422abc30"},"data":{"message":{"id":"message_01a1e1842004758fa33ce06d7828b444","role":"user","content":[{"type":"text","text":"né"}],"created_at":"2026-11-15T23:21:34.980001765Z"}},"sequence":2}"#;

fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let mut text = b"what was there before".to_vec();
    unpack(packed, &mut text)?;
    Some(text)
}

#[track_caller]
fn check(text: &str) -> Option<Vec<u8>> {
    let packed = pack(text.as_bytes(), &[])?;
    assert_eq!(unpacked(&packed).as_deref(), Some(text.as_bytes()));
    Some(packed)
}

#[test]
fn event_is_packed_and_round_trips() {
    let packed = check(EVENT).unwrap();
    let expected = [
        &[0x04, ID][..],
        &0x01a1_e184_2004_758f_a33c_e06d_7828_b444_u128.to_be_bytes(),
        &[0x0d, TIME],
        &[
            0x20, 0x26, 0x11, 0x15, 0x23, 0x21, 0x34, 0x98, 0x00, 0x01, 0x76, 0x50,
        ],
        &[0x05, ID],
        &0x5e57_u128.to_be_bytes(),
        &[0x06, ID],
        &0x01a1_e184_2004_7223_8275_d027_422a_bc30_u128.to_be_bytes(),
        &[0x1c, AGAIN, 0, 0x1f],
        "né".as_bytes(),
        &[0xc1, AGAIN, 1, 0x0a],
        b"2}",
    ];
    assert_eq!(packed, expected.concat());
}

#[test]
fn stored_codes_are_stable() {
    let list = blake3::hash(PHRASES.join("\n").as_bytes());
    assert_eq!(&list.to_hex()[..16], "55fab1357ab500ef");
    assert!(PHRASES.len() <= SHORT + 256);
    for phrase in PHRASES {
        let (number, length) = CODES.longest(phrase.as_bytes()).unwrap();
        assert_eq!(
            (PHRASES[usize::from(number)], length),
            (*phrase, phrase.len())
        );
    }
}

#[test]
fn text_containing_a_code_is_not_packed() {
    assert_eq!(pack(b"{\"data\":{\t}},\"sequence\":1}", &[]), None);
    assert_eq!(pack(b"},\"sequence\":\xf5", &[]), None);
    assert_eq!(pack(b"long", &[]), None);
}

#[test]
fn truncated_or_unknown_codes_are_invalid() {
    for broken in [
        &[ID, 1, 2][..],
        &[TIME],
        &[AGAIN],
        &[AGAIN, 0],
        &[PHRASE],
        &[PHRASE, 255],
    ] {
        assert_eq!(unpacked(broken), None, "{broken:?}");
    }
}

#[test]
fn more_values_than_a_byte_can_number_round_trip() {
    let ids: Vec<String> = (0..300).map(|n| format!("\"{n:032x}\"")).collect();
    let all = ids.join(",");
    let packed = check(&format!("{all},{all}")).unwrap();
    let (again, written) = (256, 300 + 44);
    assert_eq!(packed.len() + 1, written * (17 + 3) + again * (2 + 3));
}

proptest! {
    #[test]
    fn any_text_round_trips(text in r#"([",:{}\[\]]|[0-9a-f]{30,34}|turn_|"ts":"|2026-11-15T23:21:34\.980001765Z|\PC){0,60}"#) {
        check(&text);
    }

    #[test]
    fn any_phrases_round_trip(numbers in prop::collection::vec(0..PHRASES.len(), 0..40), between in "[\"}a-z]{0,3}") {
        let phrases: Vec<_> = numbers.into_iter().map(|n| PHRASES[n]).collect();
        check(&phrases.join(&between));
    }

    #[test]
    fn any_bytes_are_unpacked_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = unpacked(&bytes);
    }
}
