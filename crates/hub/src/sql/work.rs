//! The requests of one call, done in order on the stream's connection. Runs on a thread that may block.

use std::time::Instant;

use switchboard_wire::hrana::{
    Batch, BatchResult, Condition, CursorEntry, CursorHead, Error, PipelineResponse, Stmt,
    StmtResult, StreamRequest, StreamResponse, StreamResult,
};

use super::streams::Stream;
use super::{
    Asked, RESPONSE_BYTES_MAX, RESULT_BYTES_MAX, ROWS_MAX, STORED_BYTES_MAX, STORED_MAX, Taken,
};
use crate::call::to_json;
use crate::raw_sql::Session;

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

fn lines(head: &CursorHead, done: Result<BatchResult, Error>) -> Vec<u8> {
    let mut out = to_json(head);
    let mut line = |entry: &CursorEntry| {
        out.push(b'\n');
        out.extend_from_slice(&to_json(entry));
    };
    match done {
        Ok(batch) => batch.entries().for_each(|entry| line(&entry)),
        Err(error) => line(&CursorEntry::Error { error }),
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
            Err(error) => StreamResult::Error { error },
        }
    }

    fn respond(&mut self, request: StreamRequest) -> Result<StreamResponse, Error> {
        if self.closed {
            return Err(Error::new(
                "STREAM_CLOSED",
                "the stream was closed by an earlier request",
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
                let result = self.session()?.describe(&sql, until)?;
                StreamResponse::Describe { result }
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

    fn execute(&mut self, mut stmt: Stmt) -> Result<StmtResult, Error> {
        if Instant::now() >= self.until {
            return Err(Error::new(
                "SQLITE_INTERRUPT",
                "the call timed out; send less at a time",
            ));
        }
        let sql = self.text(stmt.sql.take(), stmt.sql_id)?;
        let (room, until) = ((ROWS_MAX, RESULT_BYTES_MAX.min(self.bytes)), self.until);
        let (rows, bytes) = self.session()?.execute(&sql, stmt, room, until)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Ok(rows)
    }

    fn batch(&mut self, batch: Batch) -> Result<BatchResult, Error> {
        let mut done = BatchResult::default();
        for step in batch.steps {
            let wanted = match &step.condition {
                None => true,
                Some(condition) => self.holds(condition, &done)?,
            };
            let ran = wanted.then(|| self.execute(step.stmt));
            let (result, error) = match ran {
                None => (None, None),
                Some(Ok(result)) => (Some(result), None),
                Some(Err(error)) => (None, Some(error)),
            };
            done.step_results.push(result);
            done.step_errors.push(error);
        }
        Ok(done)
    }

    fn holds(&self, condition: &Condition, done: &BatchResult) -> Result<bool, Error> {
        let at = |step: u32| {
            let at = usize::try_from(step).unwrap_or(usize::MAX);
            (at < done.step_results.len()).then_some(at).ok_or_else(|| {
                Error::new(
                    "BATCH_COND_BAD_STEP",
                    format!("a condition refers to step {step}, which does not come before it"),
                )
            })
        };
        Ok(match condition {
            Condition::Ok { step } => done.step_results[at(*step)?].is_some(),
            Condition::Error { step } => done.step_errors[at(*step)?].is_some(),
            Condition::Not { cond } => !self.holds(cond, done)?,
            Condition::And { conds } => conds.iter().try_fold(true, |all, one| {
                Ok::<_, Error>(self.holds(one, done)? && all)
            })?,
            Condition::Or { conds } => conds.iter().try_fold(false, |any, one| {
                Ok::<_, Error>(self.holds(one, done)? || any)
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
    fn text(&self, sql: Option<String>, id: Option<i32>) -> Result<String, Error> {
        let wrong = |message: String| Error::new("SQL_NOT_FOUND", message);
        match (sql, id) {
            (Some(sql), None) => Ok(sql),
            (None, Some(id)) => self
                .stream()
                .stored
                .get(&id)
                .cloned()
                .ok_or_else(|| wrong(format!("no text is stored under {id}"))),
            (Some(_), Some(_)) => Err(wrong(
                "a statement may have sql or sql_id, not both".to_owned(),
            )),
            (None, None) => Err(wrong("a statement requires sql or sql_id".to_owned())),
        }
    }

    fn store(&mut self, id: i32, sql: String) -> Result<(), Error> {
        let stored = &mut self.stream_mut().stored;
        let too_much = |what: String| Error::new("SQL_STORE_TOO_LARGE", what);
        if stored.contains_key(&id) {
            return Err(Error::new(
                "SQL_EXISTS",
                format!("a text is already stored under {id}"),
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

    fn session(&mut self) -> Result<&mut Session, Error> {
        let session = match self.stream_mut().session.take() {
            Some(session) => session,
            None => {
                let mut session = self.fresh_session()?;
                session.serve(self.stream().right);
                session
            }
        };
        Ok(self.stream_mut().session.insert(session))
    }

    fn fresh_session(&self) -> Result<Session, Error> {
        let kept = self.taken.shared.streams.lock().session()?;
        if let Some(session) = kept {
            return Ok(session);
        }
        let opened = self.taken.shared.door.open();
        opened.inspect_err(|_| self.taken.shared.streams.lock().one_less())
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
