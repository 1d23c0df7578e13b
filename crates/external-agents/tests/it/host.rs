//! An agent's requests for the host's files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::backend::{
    BackendEnd, BackendErrorKind, BackendSpec, HostAccess, HostAccessError, HostOffers,
    TerminalExit, TerminalOutput, TerminalRequest,
};
use windlass_external_agents::{Acp, AcpSettings, Protocol, Step};

use crate::support::{StubFixture, StubProtocol, prompt, text};

/// Delay of the host for a slow file.
const SLOW: Duration = Duration::from_secs(3);
/// Bytes of a large file.
const LARGE_FILE: usize = 200 * 1024;

/// A host that has a few files and no terminals.
struct FewFiles;

fn not_allowed<T>() -> Result<T, HostAccessError> {
    Err(HostAccessError::NotAllowed(
        "there are no terminals".to_owned(),
    ))
}

#[async_trait]
impl HostAccess for FewFiles {
    fn offers(&self) -> HostOffers {
        HostOffers {
            read_text: true,
            ..HostOffers::default()
        }
    }

    async fn read_text(
        &self,
        path: &Path,
        _line: Option<u64>,
        _limit: Option<u64>,
    ) -> Result<String, HostAccessError> {
        match path.to_str() {
            Some("/large") => Ok("x".repeat(LARGE_FILE)),
            Some("/there") => Ok("what is there".to_owned()),
            Some("/slow") => {
                tokio::time::sleep(SLOW).await;
                Ok("at last".to_owned())
            }
            Some("/broken") => panic!("the host has a fault"),
            _ => Err(HostAccessError::NotFound(path.display().to_string())),
        }
    }

    async fn write_text(&self, _path: &Path, _text: &str) -> Result<(), HostAccessError> {
        not_allowed()
    }

    async fn start_terminal(&self, _request: TerminalRequest) -> Result<String, HostAccessError> {
        not_allowed()
    }

    async fn terminal_output(&self, _id: &str) -> Result<TerminalOutput, HostAccessError> {
        not_allowed()
    }

    async fn wait_for_terminal(&self, _id: &str) -> Result<TerminalExit, HostAccessError> {
        not_allowed()
    }

    async fn kill_terminal(&self, _id: &str) -> Result<(), HostAccessError> {
        not_allowed()
    }

    async fn release_terminal(&self, _id: &str) -> Result<(), HostAccessError> {
        not_allowed()
    }

    fn release_all(&self) {}
}

#[tokio::test]
async fn file_is_read_through_the_host_if_offered() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    spec.host = Some(Arc::new(FewFiles));
    let session = fixture.backend().open(spec).await.unwrap();
    for (orders, expected) in [
        ("read /there", "what is there"),
        ("read /gone", "not found: /gone"),
        ("read /broken", "the host failed"),
    ] {
        let (outcome, events) = prompt(session.as_ref(), orders).await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed));
        assert!(text(&events).contains(expected), "{}", text(&events));
    }
    let without = fixture.open("").await;
    let (_, events) = prompt(without.as_ref(), "read /there").await;
    assert!(text(&events).contains("-32601"), "{}", text(&events));
}

#[test]
fn host_requests_are_served_only_during_an_active_turn() {
    let mut spec = BackendSpec::new("test", "/");
    spec.host = Some(Arc::new(FewFiles));
    let mut acp = Acp::new(&spec, AcpSettings::default());
    acp.begin();
    acp.line(br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    acp.line(br#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    let read = br#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/there"}}"#;
    let reaches_host = |steps: Vec<Step>| match &steps[..] {
        [Step::Host(_)] => true,
        [Step::Send(line)] => {
            assert!(line.contains("the turn is over"), "{line}");
            false
        }
        other => panic!("{other:?}"),
    };
    assert!(!reaches_host(acp.line(read)));
    acp.prompt("go");
    assert!(reaches_host(acp.line(read)));
    acp.interrupt();
    assert!(!reaches_host(acp.line(read)));
}

#[tokio::test]
async fn slow_host_does_not_count_as_agent_inactivity() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    spec.host = Some(Arc::new(FewFiles));
    spec.inactivity_timeout = Some(SLOW - Duration::from_secs(1));
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, events) = prompt(session.as_ref(), "read /slow").await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{outcome:?}");
    assert!(text(&events).contains("at last"), "{}", text(&events));
}

#[tokio::test]
async fn turn_deadline_applies_while_the_host_works() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    spec.host = Some(Arc::new(FewFiles));
    spec.inactivity_timeout = Some(SLOW - Duration::from_secs(2));
    spec.turn_limit = Some(SLOW - Duration::from_secs(1));
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "read /slow; stall").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::TimeOver));
}

#[tokio::test]
async fn answers_that_exceed_the_input_buffer_wait_until_the_agent_reads() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    spec.host = Some(Arc::new(FewFiles));
    let session = fixture.backend().open(spec).await.unwrap();
    // It writes more than a pipe can hold before it reads the first answer.
    let orders = "request-reads 40 /large; flood 300; count-answers 40";
    let (outcome, events) = prompt(session.as_ref(), orders).await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{outcome:?}");
    let answer = text(&events);
    assert!(answer.ends_with("40 good answers"), "{outcome:?}");
}

#[tokio::test]
async fn requests_beyond_the_limit_wait_instead_of_being_refused() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    spec.host = Some(Arc::new(FewFiles));
    let session = fixture.backend().open(spec).await.unwrap();
    let orders = "request-reads 200 /there; count-answers 200";
    let (outcome, events) = prompt(session.as_ref(), orders).await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{outcome:?}");
    assert_eq!(text(&events), "200 good answers");
}

#[tokio::test]
async fn agent_that_never_reads_its_answers_is_inactive() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    spec.host = Some(Arc::new(FewFiles));
    spec.inactivity_timeout = Some(Duration::from_secs(1));
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "request-reads 60 /large; stall").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Inactive));
}
