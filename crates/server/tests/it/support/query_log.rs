//! The read model, with a log of its queries.

use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use windlass_core::typed_id::{ExecId, TurnId};
use windlass_store::queries::{
    Counts, Listed, Queries, QueryError, RunRow, ThreadDetail, ThreadOutline, ThreadQuery,
    ThreadRow, TurnDetail, TurnQuery, TurnRow, UsageQuery, UsageReport, WaitRow,
};
use windlass_store::{RunFilter, StreamKey};

/// Records each query and its limit, and forwards it to the real implementation.
#[derive(Default)]
pub(crate) struct QueryLog {
    queries: OnceLock<Arc<dyn Queries>>,
    questions: Mutex<Vec<String>>,
}

impl QueryLog {
    /// Wraps the real queries.
    pub(crate) fn before(self: &Arc<Self>, queries: Arc<dyn Queries>) -> Arc<dyn Queries> {
        assert!(self.queries.set(queries).is_ok(), "it wraps one store only");
        Arc::clone(self) as Arc<dyn Queries>
    }

    fn note(&self, question: impl Into<String>) -> &dyn Queries {
        self.questions.lock().unwrap().push(question.into());
        &**self.queries.get().unwrap()
    }

    /// Returns the queries since the last call.
    pub(crate) fn questions(&self) -> Vec<String> {
        std::mem::take(&mut *self.questions.lock().unwrap())
    }
}

#[async_trait]
impl Queries for QueryLog {
    async fn threads(&self, query: ThreadQuery) -> Result<Listed<ThreadRow>, QueryError> {
        let question = format!("{} threads", query.limit);
        self.note(question).threads(query).await
    }
    async fn thread(&self, stream: &StreamKey) -> Result<Option<ThreadRow>, QueryError> {
        self.note("thread").thread(stream).await
    }
    async fn turns(&self, query: TurnQuery) -> Result<Listed<TurnRow>, QueryError> {
        let question = format!("{} turns", query.limit);
        self.note(question).turns(query).await
    }
    async fn turn(&self, stream: &StreamKey, id: TurnId) -> Result<Option<TurnRow>, QueryError> {
        self.note("turn").turn(stream, id).await
    }
    async fn turn_detail(
        &self,
        stream: &StreamKey,
        id: TurnId,
    ) -> Result<Option<TurnDetail>, QueryError> {
        self.note("turn with items").turn_detail(stream, id).await
    }
    async fn thread_outline(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadOutline>, QueryError> {
        let question = format!("thread with {newest} turns");
        self.note(question).thread_outline(stream, newest).await
    }
    async fn thread_detail(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadDetail>, QueryError> {
        let question = format!("thread with {newest} turns");
        self.note(question).thread_detail(stream, newest).await
    }
    async fn waits(&self, stream: Option<&StreamKey>) -> Result<Vec<WaitRow>, QueryError> {
        self.note("waits").waits(stream).await
    }
    async fn wait(&self, exec_id: ExecId) -> Result<Option<WaitRow>, QueryError> {
        self.note("wait").wait(exec_id).await
    }
    async fn usage(&self, query: UsageQuery) -> Result<UsageReport, QueryError> {
        self.note("usage").usage(query).await
    }
    async fn runs(&self, filter: RunFilter, limit: usize) -> Result<Vec<RunRow>, QueryError> {
        self.note(format!("{limit} runs")).runs(filter, limit).await
    }
    async fn run(&self, run_id: &str) -> Result<Option<RunRow>, QueryError> {
        self.note("run").run(run_id).await
    }
    async fn counts(&self) -> Result<Counts, QueryError> {
        self.note("counts").counts().await
    }
}
