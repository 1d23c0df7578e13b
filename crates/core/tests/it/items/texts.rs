//! What people read of parts.

use windlass_core::items::{SUMMARY_CHARS, input_summary, plain_text};
use windlass_core::message::{ContentPart, ImageContentPart, Message};
use windlass_core::turn_request::TurnRequest;

fn image(url: Option<&str>, base64: Option<&str>) -> ContentPart {
    ContentPart::Image(ImageContentPart {
        url: url.map(str::to_owned),
        base64: base64.map(str::to_owned),
        media_type: base64.map(|_| "image/png".to_owned()),
    })
}

#[test]
fn parts_are_joined_and_images_are_named() {
    let parts = [
        ContentPart::text("look"),
        image(Some("http://example.org/x.png"), None),
        image(Some("data:image/gif;base64,AAAA"), None),
        image(None, Some("AAAA")),
    ];
    let text = "look\n[image] http://example.org/x.png\n[image] data:image/gif;base64,…\n\
                [image] data:image/png;base64,…";
    assert_eq!(plain_text(&parts), text);
    assert_eq!(plain_text(&[]), "");
}

#[test]
fn summary_is_truncated_or_supplied_by_the_client() {
    let mut message = Message::user("ä".repeat(SUMMARY_CHARS + 1));
    assert_eq!(input_summary(&message), "ä".repeat(SUMMARY_CHARS));
    let request = TurnRequest {
        input_summary: Some("greeting".to_owned()),
        ..TurnRequest::default()
    };
    message.controls.get_or_insert_default().turn = Some(Box::new(request));
    assert_eq!(input_summary(&message), "greeting");
}
