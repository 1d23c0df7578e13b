//! Secrets of the operator in requests: they are sent only to their hosts.

use serde_json::json;
use windlass_core::named_secrets::{NamedSecret, NamedSecrets, SecretHeader};
use windlass_core::network_access::NetworkAccessList;

use super::site::{Says, Site};
use super::{Names, Reader};

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
async fn a_redirect_takes_no_secret_to_another_host() {
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    let other = Site::on("127.0.0.1:0", &[("/", Says::page("text/plain", b"other"))]).await;
    let further = format!("http://other.example:{}/", other.port);
    let pages = [
        ("/", Says::page("text/plain", b"own")),
        ("/away", Says::redirect(&further)),
    ];
    let site = Site::on("127.0.0.1:0", &pages).await;
    let names = Names::of(&[("site.example", here), ("other.example", here)]);
    let mut reader = Reader::new(&["127.0.0.1/32"], &[], Some(names));
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
    let heard = site.heard();
    let has: Vec<_> = heard
        .iter()
        .map(|text| text.contains("authorization: Bearer s3cret-0042"))
        .collect();
    assert_eq!(has, [true, true, false], "{heard:?}");
    let heard = other.heard();
    assert_eq!(heard.len(), 1, "only by a call of its own");
    assert!(!heard.concat().contains("s3cret"), "{heard:?}");
}

#[tokio::test]
async fn a_page_that_says_a_secret_again_is_not_cut_inside_of_it() {
    let body = b"you said s3cret-0042 to me";
    let site = Site::on("127.0.0.1:0", &[("/", Says::page("text/plain", body))]).await;
    let mut reader = Reader::new(&["127.0.0.1/32"], &[], None);
    let address = format!("http://127.0.0.1:{}", site.port);
    let (context, _chat) = crate::secrets::context_with(secrets(&address)).await;
    reader.places = context.secret_places;
    for max_bytes in 1..body.len() {
        let asked = json!({ "url": format!("{address}/"), "max_bytes": max_bytes });
        let text = reader.call(asked).await.unwrap()["text"].clone();
        assert!(
            !text.as_str().unwrap().contains("s3"),
            "{max_bytes}: {text}"
        );
    }
    reader.settings.max_body_bytes = 14;
    let page = reader.fetch(&format!("{address}/")).await.unwrap();
    assert_eq!(page["text"], "you said ");
}
