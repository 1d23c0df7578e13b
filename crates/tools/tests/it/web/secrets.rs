//! Secrets of the operator in requests: they are sent only to their hosts.

use serde_json::json;
use windlass_core::named_secrets::{NamedSecret, NamedSecrets, SecretHeader};
use windlass_core::network_access::NetworkAccessList;

use super::site::{Response, Site};
use super::{FakeResolver, PageReader};

fn secrets(to: &str) -> NamedSecrets {
    let secret = NamedSecret {
        name: "TOKEN".to_owned(),
        value: "s3cret-0042".to_owned(),
        in_commands: false,
        header: Some(SecretHeader {
            to: NetworkAccessList::allow_only([to]),
            name: "Authorization".to_owned(),
            before: "Bearer ".to_owned(),
        }),
        agents: Vec::new(),
    };
    NamedSecrets::new(vec![secret]).unwrap()
}

#[tokio::test]
async fn redirect_sends_no_secret_to_another_host() {
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    let other = Site::on(
        "127.0.0.1:0",
        &[("/", Response::page("text/plain", b"other"))],
    )
    .await;
    let further = format!("http://other.example:{}/", other.port);
    let pages = [
        ("/", Response::page("text/plain", b"own")),
        ("/away", Response::redirect(&further)),
    ];
    let site = Site::on("127.0.0.1:0", &pages).await;
    let names = FakeResolver::new(&[("site.example", here), ("other.example", here)]);
    let mut reader = PageReader::new(&["127.0.0.1/32"], &[], Some(names));
    let own = format!("http://site.example:{}", site.port);
    reader.secrets = Some(secrets(&own));
    assert_eq!(
        reader.fetch(&format!("{own}/")).await.unwrap()["text"],
        "own"
    );
    let away = reader.fetch(&format!("{own}/away")).await.unwrap_err();
    assert!(away.contains("redirects to another host"), "{away}");
    reader.fetch(&further).await.unwrap();
    // The same server under another name is another host.
    let by_address = format!("http://127.0.0.1:{}/", site.port);
    reader.fetch(&by_address).await.unwrap();
    let requests = site.requests();
    let has: Vec<_> = requests
        .iter()
        .map(|text| text.contains("authorization: Bearer s3cret-0042"))
        .collect();
    assert_eq!(has, [true, true, false], "{requests:?}");
    let requests = other.requests();
    assert_eq!(requests.len(), 1, "only by a call of its own");
    assert!(!requests.concat().contains("s3cret"), "{requests:?}");
}

#[tokio::test]
async fn echoed_secret_is_not_truncated_inside() {
    let body = b"you said s3cret-0042 to me";
    let site = Site::on("127.0.0.1:0", &[("/", Response::page("text/plain", body))]).await;
    let mut reader = PageReader::new(&["127.0.0.1/32"], &[], None);
    let address = format!("http://127.0.0.1:{}", site.port);
    let (context, _chat) = crate::secrets::context_with(secrets(&address)).await;
    reader.places = context.secret_places;
    for max_bytes in 1..body.len() {
        let requests = json!({ "url": format!("{address}/"), "max_bytes": max_bytes });
        let text = reader.call(requests).await.unwrap()["text"].clone();
        assert!(
            !text.as_str().unwrap().contains("s3"),
            "{max_bytes}: {text}"
        );
    }
    reader.settings.max_body_bytes = 14;
    let page = reader.fetch(&format!("{address}/")).await.unwrap();
    assert_eq!(page["text"], "you said ");
}
