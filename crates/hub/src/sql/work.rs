//! The requests of one call, done in order on the stream's connection. Runs on a thread that may block.

use std::time::Instant;

use switchboard_store::sqlite::door::{Allowance, Query, Refused, Session};
use switchboard_wire::hrana::{
    Batch, BatchResult, Condition, CursorEntry, CursorHead, PipelineResponse, Stmt, StmtResult,
    StreamRequest, StreamResponse, StreamResult,
};

use super::streams::Stream;
use super::{
    Asked, RESPONSE_BYTES_MAX, RESULT_BYTES_MAX, ROWS_MAX, STORED_BYTES_MAX, STORED_MAX, Taken,
    convert,
};
use crate::http::to_json;

/// Does what was asked and prints the answer. The stream goes on, or ends here.
pub(super) fn answer(taken: Taken, asked: Asked, until: Instant) -> Vec<u8> {
    let mut work = Work {
        taken,
        until,
        bytes: RESPONSE_BYTES_MAX,
        closed: false,
    };
    match asked {
        Asked::Pipeline(requests) => {
            let results = requests
                .into_iter()
                .map(|request| work.result(request))
                .collect();
            to_json(&PipelineResponse {
                baton: work.finish(),
                base_url: None,
                results,
            })
        }
        Asked::Cursor(batch) => {
            let done = work.batch(batch);
            let head = CursorHead {
                baton: work.finish(),
                base_url: None,
            };
            lines(&head, done)
        }
    }
}

fn lines(head: &CursorHead, done: Result<BatchResult, Refused>) -> Vec<u8> {
    let mut out = to_json(head);
    let mut line = |entry: &CursorEntry| {
        out.push(b'\n');
        out.extend_from_slice(&to_json(entry));
    };
    match done {
        Ok(batch) => batch.entries().for_each(|entry| line(&entry)),
        Err(refused) => line(&CursorEntry::Error {
            error: convert::error(refused),
        }),
    }
    out.push(b'\n');
    out
}

struct Work {
    taken: Taken,
    until: Instant,
    /// What the answer may still take.
    bytes: usize,
    closed: bool,
}

impl Work {
    fn result(&mut self, request: StreamRequest) -> StreamResult {
        match self.respond(request) {
            Ok(response) => StreamResult::Ok { response },
            Err(refused) => StreamResult::Error {
                error: convert::error(refused),
            },
        }
    }

    fn respond(&mut self, request: StreamRequest) -> Result<StreamResponse, Refused> {
        if self.closed {
            return Err(Refused::new(
                "STREAM_CLOSED",
                "the stream was closed by a request before",
            ));
        }
        Ok(match request {
            StreamRequest::Close => {
                self.closed = true;
                StreamResponse::Close
            }
            StreamRequest::Execute { stmt } => StreamResponse::Execute {
                result: self.execute(stmt)?,
            },
            StreamRequest::Batch { batch } => StreamResponse::Batch {
                result: self.batch(batch)?,
            },
            StreamRequest::Sequence { sql, sql_id } => {
                let (sql, until) = (self.text(sql, sql_id)?, self.until);
                self.session()?.sequence(&sql, until)?;
                StreamResponse::Sequence
            }
            StreamRequest::Describe { sql, sql_id } => {
                let (sql, until) = (self.text(sql, sql_id)?, self.until);
                let described = self.session()?.describe(&sql, until)?;
                StreamResponse::Describe {
                    result: convert::described(described),
                }
            }
            StreamRequest::StoreSql { sql_id, sql } => {
                self.store(sql_id, sql)?;
                StreamResponse::StoreSql
            }
            StreamRequest::CloseSql { sql_id } => {
                self.stream_mut().stored.remove(&sql_id);
                StreamResponse::CloseSql
            }
            StreamRequest::GetAutocommit => StreamResponse::GetAutocommit {
                is_autocommit: self.is_autocommit(),
            },
        })
    }

    fn execute(&mut self, stmt: Stmt) -> Result<StmtResult, Refused> {
        let began = Instant::now();
        if began >= self.until {
            return Err(Refused::new(
                "SQLITE_INTERRUPT",
                "the call took too long; send less at a time",
            ));
        }
        let sql = self.text(stmt.sql, stmt.sql_id)?;
        let (args, named) = (
            convert::args(stmt.args),
            convert::named_args(stmt.named_args),
        );
        let query = Query {
            sql: &sql,
            args: &args,
            named: &named,
            want_rows: stmt.want_rows.unwrap_or(true),
        };
        let allowance = Allowance {
            rows: ROWS_MAX,
            bytes: RESULT_BYTES_MAX.min(self.bytes),
            until: self.until,
        };
        let rows = self.session()?.execute(&query, &allowance)?;
        self.bytes = self.bytes.saturating_sub(rows.bytes);
        Ok(convert::rows(rows, began.elapsed()))
    }

    fn batch(&mut self, batch: Batch) -> Result<BatchResult, Refused> {
        let mut done = BatchResult::default();
        for step in batch.steps {
            let wanted = match &step.condition {
                None => true,
                Some(condition) => self.holds(condition, &done)?,
            };
            let ran = wanted.then(|| self.execute(step.stmt));
            let (result, refused) = match ran {
                None => (None, None),
                Some(Ok(result)) => (Some(result), None),
                Some(Err(refused)) => (None, Some(convert::error(refused))),
            };
            done.step_results.push(result);
            done.step_errors.push(refused);
        }
        Ok(done)
    }

    fn holds(&self, condition: &Condition, done: &BatchResult) -> Result<bool, Refused> {
        let at = |step: u32| {
            let at = usize::try_from(step).unwrap_or(usize::MAX);
            (at < done.step_results.len()).then_some(at).ok_or_else(|| {
                Refused::new(
                    "BATCH_COND_BAD_STEP",
                    format!("a condition asks about step {step}, which does not come before it"),
                )
            })
        };
        Ok(match condition {
            Condition::Ok { step } => done.step_results[at(*step)?].is_some(),
            Condition::Error { step } => done.step_errors[at(*step)?].is_some(),
            Condition::Not { cond } => !self.holds(cond, done)?,
            Condition::And { conds } => conds.iter().try_fold(true, |all, one| {
                Ok::<_, Refused>(self.holds(one, done)? && all)
            })?,
            Condition::Or { conds } => conds.iter().try_fold(false, |any, one| {
                Ok::<_, Refused>(self.holds(one, done)? || any)
            })?,
            Condition::IsAutocommit => self.is_autocommit(),
        })
    }

    fn is_autocommit(&self) -> bool {
        self.stream()
            .session
            .as_ref()
            .is_none_or(Session::is_autocommit)
    }

    /// The text of a statement: as given, or as stored before.
    fn text(&self, sql: Option<String>, id: Option<i32>) -> Result<String, Refused> {
        let wrong = |message: String| Refused::new("SQL_NOT_FOUND", message);
        match (sql, id) {
            (Some(sql), None) => Ok(sql),
            (None, Some(id)) => self
                .stream()
                .stored
                .get(&id)
                .cloned()
                .ok_or_else(|| wrong(format!("no text is stored under {id}"))),
            (Some(_), Some(_)) => Err(wrong("a statement has either sql or sql_id".to_owned())),
            (None, None) => Err(wrong("a statement needs sql or sql_id".to_owned())),
        }
    }

    fn store(&mut self, id: i32, sql: String) -> Result<(), Refused> {
        let stored = &mut self.stream_mut().stored;
        let too_much = |what: String| Refused::new("SQL_STORE_TOO_LARGE", what);
        if stored.contains_key(&id) {
            return Err(Refused::new(
                "SQL_EXISTS",
                format!("a text is stored under {id} already"),
            ));
        }
        if stored.len() >= STORED_MAX {
            return Err(too_much(format!(
                "a stream may store at most {STORED_MAX} texts; close some"
            )));
        }
        let bytes: usize = stored.values().map(String::len).sum();
        if bytes + sql.len() > STORED_BYTES_MAX {
            return Err(too_much(format!(
                "a stream may store at most {STORED_BYTES_MAX} bytes of texts"
            )));
        }
        stored.insert(id, sql);
        Ok(())
    }

    fn session(&mut self) -> Result<&mut Session, Refused> {
        let session = match self.stream_mut().session.take() {
            Some(session) => session,
            None => {
                let mut session = self.fresh_session()?;
                session.serve(self.stream().rank);
                session
            }
        };
        Ok(self.stream_mut().session.insert(session))
    }

    fn fresh_session(&self) -> Result<Session, Refused> {
        let kept = self.taken.shared.streams.lock().session()?;
        if let Some(session) = kept {
            return Ok(session);
        }
        self.taken.shared.door.open().map_err(|error| {
            self.taken.shared.streams.lock().one_less();
            tracing::warn!(%error, "no connection for a statement from outside");
            Refused::new(
                "SQLITE_CANTOPEN",
                "the ledger cannot be opened right now; try again",
            )
        })
    }

    /// Keeps the stream for its next call and tells its baton, or ends it. Between calls only a transaction needs
    /// its connection.
    fn finish(self) -> Option<String> {
        let (shared, mut stream) = self.taken.into_parts();
        if self.closed {
            shared.end(stream);
            return None;
        }
        let idle = stream.session.take_if(|session| session.is_autocommit());
        let mut streams = shared.streams.lock();
        let spare = idle.and_then(|session| streams.keep(session));
        let put = streams.put(stream);
        drop(streams);
        drop(spare);
        shared.bell.notify_one();
        match put {
            Ok(baton) => Some(baton),
            Err(stream) => {
                shared.end(*stream);
                None
            }
        }
    }

    fn stream(&self) -> &Stream {
        self.taken.stream()
    }

    fn stream_mut(&mut self) -> &mut Stream {
        self.taken.stream_mut()
    }
}
