//! One connection: its settings, its statements, and many of them sent before the first answer.
//!
//! Between us and the server may stand a pooler that gives each transaction another connection. Then nothing may be
//! left behind on one: statements stay unnamed, and settings are made anew in each transaction.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{maybe_done, try_join_all};
use tokio::sync::Notify;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Notification, Row, Statement};

use super::address::{Address, Connection};
use super::errors::{is_warning, world};
use super::rows::{Array, Batch, escape};
use crate::Error;
use crate::columns::Values;

/// The oldest server that has all that is used here.
const SERVER_MIN: i64 = 13_00_00;

/// How each session behaves, wherever it is set. Joins go by index, because a plan is kept while tables grow.
/// Warnings must be heard: one tells that a commit did not wait for its standby.
const SETTINGS: &[(&str, &str)] = &[
    ("client_min_messages", "warning"),
    ("lock_timeout", "4s"),
    ("statement_timeout", "15s"),
    ("idle_in_transaction_session_timeout", "2s"),
    ("tcp_user_timeout", "5s"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_seqscan", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// Rings when somebody else notifies.
#[derive(Clone)]
pub(crate) struct Bell {
    ring: Arc<Notify>,
    /// What our own notifications carry.
    own: Arc<str>,
}

impl Bell {
    pub fn new(own: &str) -> Bell {
        Bell {
            ring: Arc::default(),
            own: own.into(),
        }
    }

    pub async fn rung(&self) {
        self.ring.notified().await;
    }

    fn hear(&self, notification: &Notification) {
        if notification.payload() != &*self.own {
            self.ring.notify_one();
        }
    }
}

pub(crate) struct Session {
    client: Arc<Client>,
    pooled: bool,
    statements: HashMap<String, Statement>,
    warnings: Arc<AtomicU64>,
}

/// The rows of each query of a request.
pub(crate) type Answers = Result<Vec<Vec<Row>>, tokio_postgres::Error>;
pub(crate) type Request = Pin<Box<dyn Future<Output = Answers> + Send>>;

/// A statement with its values.
pub(crate) struct Query {
    pub sql: String,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Values for Query {
    fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        let value = value.into().map(|text| escape(text).into_owned());
        self.push(value, Type::TEXT)
    }

    fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        self.push(value.into(), Type::INT8)
    }

    fn real(&mut self, value: impl Into<Option<f64>>) -> &mut Self {
        self.push(value.into(), Type::FLOAT8)
    }

    fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) -> &mut Self {
        self.push(value.into().map(<[u8]>::to_vec), Type::BYTEA)
    }
}

impl Query {
    fn push(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> &mut Self {
        self.params.push((Box::new(value), kind));
        self
    }

    pub fn new(sql: impl Into<String>) -> Query {
        Query {
            sql: sql.into(),
            params: Vec::new(),
        }
    }

    /// One parameter per column.
    pub fn rows(sql: impl Into<String>, batch: Batch) -> Query {
        let params = batch.columns().into_iter().map(array).collect();
        Query {
            sql: sql.into(),
            params,
        }
    }

    /// More rows for the same statement, of another shape.
    pub fn and(mut self, batch: Batch) -> Query {
        self.params.extend(batch.columns().into_iter().map(array));
        self
    }

    pub fn text(mut self, value: &str) -> Self {
        let value = escape(value).into_owned();
        self.params.push((Box::new(value), Type::TEXT));
        self
    }

    pub fn int(mut self, value: i64) -> Self {
        self.params.push((Box::new(value), Type::INT8));
        self
    }

    pub fn bytes(self, value: &[u8]) -> Self {
        self.bytes_or_null(Some(value))
    }

    pub fn bytes_or_null(mut self, value: Option<&[u8]>) -> Self {
        let value = value.map(<[u8]>::to_vec);
        self.params.push((Box::new(value), Type::BYTEA));
        self
    }

    /// A list of words, for `= ANY($n)`.
    pub fn texts<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut batch = Batch::default();
        values.into_iter().for_each(|value| batch.text(value).end());
        match batch.columns().pop() {
            Some(column) => self.params.push(array(column)),
            None => self
                .params
                .push((Box::new(Vec::<String>::new()), Type::TEXT_ARRAY)),
        }
        self
    }

    pub fn ints(mut self, values: impl IntoIterator<Item = i64>) -> Self {
        let values: Vec<i64> = values.into_iter().collect();
        self.params.push((Box::new(values), Type::INT8_ARRAY));
        self
    }

    fn types(&self) -> Vec<Type> {
        self.params.iter().map(|(_, kind)| kind.clone()).collect()
    }
}

fn array(column: Array) -> (Box<dyn ToSql + Sync + Send>, Type) {
    let kind = column.array_type();
    (Box::new(column), kind)
}

impl Session {
    /// Connects, and finds out whether a pooler stands in between. The bell hears each notification.
    pub async fn open(address: &Address, bell: Option<Bell>) -> Result<Session, Error> {
        let warnings = Arc::default();
        let client = connect(address, bell, Arc::clone(&warnings)).await?;
        let pooled = match address.pooled() {
            Some(pooled) => pooled,
            None => is_pooled(address, &client).await?,
        };
        let session = Session {
            client: Arc::new(client),
            pooled,
            statements: HashMap::new(),
            warnings,
        };
        if !pooled {
            session.simple(&settings("SET")).await.map_err(world)?;
        }
        Ok(session)
    }

    pub fn is_pooled(&self) -> bool {
        self.pooled
    }

    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Warnings heard so far. Those of a statement are counted before its answer is there.
    pub fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    /// What opens a transaction here.
    pub fn begin(&self) -> String {
        if self.pooled {
            format!("BEGIN; {}", settings("SET LOCAL"))
        } else {
            "BEGIN".to_owned()
        }
    }

    pub async fn simple(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }

    /// A query on its own, under no name.
    pub async fn query(&self, query: &Query) -> Result<Vec<Row>, tokio_postgres::Error> {
        unnamed(&self.client, query).await
    }

    /// A query that is asked again and again: the server works out only once what it means.
    pub async fn query_often(&mut self, query: &Query) -> Result<Vec<Row>, tokio_postgres::Error> {
        if !self.pooled {
            self.prepare(std::slice::from_ref(query)).await?;
        }
        run(&self.client, self.statements.get(&query.sql), query).await
    }

    /// What sends `first`, all queries and `last` in one go when it is first polled, and then waits for the answers.
    ///
    /// Fails with the first failure; the server has then skipped what came after it in the transaction.
    pub async fn request(
        &mut self,
        first: Option<String>,
        queries: Vec<Query>,
        last: Option<&'static str>,
    ) -> Result<Request, tokio_postgres::Error> {
        if !self.pooled {
            self.prepare(&queries).await?;
        }
        let named = |query: Query| (self.statements.get(&query.sql).cloned(), query);
        let queries: Vec<_> = queries.into_iter().map(named).collect();
        let client = Arc::clone(&self.client);
        Ok(Box::pin(async move {
            let opening = simple(&client, first.as_deref());
            let named = queries.iter();
            let answers = all(named.map(|(name, query)| run(&client, name.as_ref(), query)));
            let closing = simple(&client, last);
            // Polled in this order, hence sent in this order.
            let (opened, answers, closed) = tokio::join!(biased; opening, answers, closing);
            opened?;
            let answers: Result<Vec<_>, _> = answers.into_iter().collect();
            let answers = answers?;
            closed?;
            Ok(answers)
        }))
    }

    /// Gives names to statements that have none yet. Texts come from this build, so there is a bounded number.
    async fn prepare(&mut self, queries: &[Query]) -> Result<(), tokio_postgres::Error> {
        let new: HashMap<&str, &Query> = queries
            .iter()
            .map(|query| (query.sql.as_str(), query))
            .filter(|(sql, _)| !self.statements.contains_key(*sql))
            .collect();
        let client = &self.client;
        let prepared = new.into_iter().map(|(sql, query)| async move {
            let statement = client.prepare_typed(sql, &query.types()).await?;
            Ok::<_, tokio_postgres::Error>((sql.to_owned(), statement))
        });
        let prepared = try_join_all(prepared).await?;
        self.statements.extend(prepared);
        Ok(())
    }
}

async fn simple(client: &Client, sql: Option<&str>) -> Result<(), tokio_postgres::Error> {
    match sql {
        Some(sql) => client.batch_execute(sql).await,
        None => Ok(()),
    }
}

async fn run(
    client: &Client,
    statement: Option<&Statement>,
    query: &Query,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let Some(statement) = statement else {
        return unnamed(client, query).await;
    };
    let params: Vec<&(dyn ToSql + Sync)> = query
        .params
        .iter()
        .map(|(value, _)| &**value as &(dyn ToSql + Sync))
        .collect();
    client.query(statement, &params).await
}

async fn unnamed(client: &Client, query: &Query) -> Result<Vec<Row>, tokio_postgres::Error> {
    let params: Vec<(&(dyn ToSql + Sync), Type)> = query
        .params
        .iter()
        .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
        .collect();
    client.query_typed(&query.sql, &params).await
}

/// Polls all of them in their order until each is done.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let mut pending = false;
        for future in &mut futures {
            pending |= future.as_mut().poll(context).is_pending();
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let outputs = futures
        .iter_mut()
        .map(|future| future.as_mut().take_output());
    outputs
        .map(|output| output.expect("every future is done"))
        .collect()
}

fn settings(word: &str) -> String {
    SETTINGS
        .iter()
        .map(|(name, value)| format!("{word} {name} = '{value}'; "))
        .collect()
}

async fn connect(
    address: &Address,
    bell: Option<Bell>,
    warnings: Arc<AtomicU64>,
) -> Result<Client, Error> {
    let (client, connection) = address.connect().await?;
    tokio::spawn(drive(connection, bell, warnings));
    let version = client
        .query_typed("SELECT current_setting('server_version_num')::bigint", &[])
        .await
        .map_err(world)?;
    let version: i64 = version.first().map_or(0, |row| row.get(0));
    if version < SERVER_MIN {
        return Err(Error::Open(format!(
            "{address} is PostgreSQL {}, but 13 or newer is required",
            version / 10_000
        )));
    }
    Ok(client)
}

/// Moves bytes until the connection ends. Its errors reach whoever waits for an answer.
async fn drive(mut connection: Connection, bell: Option<Bell>, warnings: Arc<AtomicU64>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notification(notification) => {
                if let Some(bell) = &bell {
                    bell.hear(&notification);
                }
            }
            AsyncMessage::Notice(notice) if is_warning(&notice) => {
                tracing::debug!("the database warns: {notice}");
                warnings.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Two connections of ours that meet on one server process, or one that wanders between them, betray a pooler.
async fn is_pooled(address: &Address, client: &Client) -> Result<bool, Error> {
    const PROBES: usize = 3;
    const WAIT: Duration = Duration::from_secs(3);
    let other = connect(address, None, Arc::default()).await?;
    let probe = async {
        for _ in 0..PROBES {
            let first = backend(client).await?;
            let second = backend(client).await?;
            other.batch_execute("BEGIN").await?;
            let between = backend(&other).await?;
            let third = backend(client).await?;
            other.batch_execute("ROLLBACK").await?;
            if first != second || second != third || between == third || between == second {
                return Ok(true);
            }
        }
        Ok::<_, tokio_postgres::Error>(false)
    };
    match tokio::time::timeout(WAIT, probe).await {
        Ok(found) => found.map_err(world),
        // A pool of one connection, which the open transaction holds.
        Err(_) => Ok(true),
    }
}

async fn backend(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let rows = client.query_typed("SELECT pg_backend_pid()", &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}
