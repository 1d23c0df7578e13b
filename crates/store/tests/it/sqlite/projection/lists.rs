//! Pages, cursors and filters.

use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::{ThreadCursor, ThreadFilter, Window};

use super::super::support::{Home, completed, custom, fill, key, started};
use super::play::plain_turns;
use super::shown::append;

#[tokio::test]
async fn threads_come_by_their_newest_activity() {
    let home = Home::new();
    let store = home.open().await;
    let turn = TurnId::new();
    for name in ["a", "b", "c", "d"] {
        fill(&store, name, vec![custom("x")]).await;
    }
    fill(&store, "b", vec![started(TurnId::new())]).await;
    fill(&store, "a", vec![started(turn), completed(turn)]).await;
    let list = async |filter, limit| {
        let (mut names, mut window) = (Vec::<Vec<String>>::new(), Window::first(limit));
        loop {
            let page = store.threads(filter, window).await.unwrap();
            names.push(page.entries.iter().map(|t| t.stream.to_string()).collect());
            match page.next {
                Some(next) => {
                    let next: ThreadCursor = next.to_string().parse().unwrap();
                    window = Window::after(next, limit);
                }
                None => return names,
            }
        }
    };
    let pages = |pages: &[&[&str]]| -> Vec<Vec<String>> {
        let page = |page: &&[&str]| page.iter().map(|name| (*name).to_owned()).collect();
        pages.iter().map(page).collect()
    };
    for limit in [9, usize::MAX] {
        assert_eq!(
            list(ThreadFilter::All, limit).await,
            pages(&[&["a", "b", "d", "c"]])
        );
    }
    assert_eq!(
        list(ThreadFilter::All, 2).await,
        pages(&[&["a", "b"], &["d", "c"]])
    );
    assert_eq!(
        list(ThreadFilter::All, 3).await,
        pages(&[&["a", "b", "d"], &["c"]])
    );
    assert_eq!(list(ThreadFilter::Open, 2).await, pages(&[&["b"]]));
    assert_eq!(
        list(ThreadFilter::Idle, 2).await,
        pages(&[&["a", "d"], &["c"]])
    );
    assert!("x".parse::<ThreadCursor>().is_err());
    let none = store.turns(&key("none"), Window::first(1)).await.unwrap();
    assert!(none.entries.is_empty() && none.next.is_none());
    assert_eq!(store.items(&key("a"), TurnId::new()).await.unwrap(), None);
    assert!(store.items(&key("a"), turn).await.unwrap().is_some());
    assert_eq!(store.items(&key("b"), turn).await.unwrap(), None);
}

#[tokio::test]
async fn a_page_among_many_turns() {
    let home = Home::new();
    let store = home.open().await;
    append(&store, "s", &plain_turns(1, 10_000), 1000).await;
    let stream = key("s");
    let newest = store.turns(&stream, Window::first(2)).await.unwrap();
    let places: Vec<_> = newest.entries.iter().map(|turn| turn.place).collect();
    assert_eq!(places, [9_999, 9_998]);
    let middle = store.turns(&stream, Window::after(5_000, 3)).await.unwrap();
    let places: Vec<_> = middle.entries.iter().map(|turn| turn.place).collect();
    assert_eq!(
        (places, middle.next),
        (vec![4_999, 4_998, 4_997], Some(4_997))
    );
    assert_eq!(middle.entries[0].turn.outline.item_ids.len(), 2);
    let last = store.turns(&stream, Window::after(1, 3)).await.unwrap();
    assert_eq!((last.entries.len(), last.next), (1, None));
    let messages = store.messages(&stream, 12_345, 2).await.unwrap();
    assert_eq!(messages.entries[0].index, 12_345);
    assert_eq!(messages.next, Some(12_347));
    let end = store.messages(&stream, 19_999, 5).await.unwrap();
    assert_eq!((end.entries.len(), end.next), (1, None));
}
