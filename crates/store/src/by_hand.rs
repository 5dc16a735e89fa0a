//! Notes of hand writes, read as nouns: the same for every engine that has them.
//!
//! A note holds the row before and after as JSON under the names of its columns. Large texts that no hand changed are
//! left out of it and taken from the row as it stands.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};
use switchboard_core::changes::AdoptedRow;
use switchboard_core::verb::{AgentWritten, Note, Written};
use switchboard_core::{AgentId, LeasePath, Message, MessageId, Metrics, Slice, Task, TaskId};

use crate::rows::{self, Columns, Unreadable};

/// A note as the store has it, with the texts of its row.
#[derive(Debug, Default)]
pub(crate) struct RawNote {
    pub number: u64,
    pub table: String,
    pub key: String,
    pub deed: String,
    pub was: Option<String>,
    pub became: Option<String>,
    /// A task's description, a message's payload.
    pub text: Option<String>,
    pub result: Option<String>,
    /// What the snapshot that a task points to has measured.
    pub metrics: Option<Metrics>,
}

impl RawNote {
    pub fn read(self) -> Note {
        let number = self.number;
        let row = self.row();
        let written = self.written().unwrap_or_else(|error| Written::Unreadable {
            row,
            why: error.to_string(),
        });
        Note { number, written }
    }

    fn row(&self) -> AdoptedRow {
        let key = self.key.as_str();
        match self.table.as_str() {
            "tasks" => AdoptedRow::Task(key.into()),
            "agents" => AdoptedRow::Agent(key.into()),
            "messages" => AdoptedRow::Message(key.into()),
            "leases" => AdoptedRow::Lease(LeasePath::stored(key)),
            _ => AdoptedRow::Baseline,
        }
    }

    fn written(self) -> Result<Written, Unreadable> {
        Ok(match self.row() {
            AdoptedRow::Task(id) => Written::Task {
                was: self.task(self.was.as_deref())?,
                is: self.task(self.became.as_deref())?,
                id,
                metrics: self.metrics.map(Box::new),
            },
            AdoptedRow::Agent(id) => Written::Agent {
                id,
                was: agent(self.was.as_deref())?,
                is: agent(self.became.as_deref())?,
                how: match self.deed.as_str() {
                    "insert" => AgentWritten::Inserted,
                    "beat" => AgentWritten::Beat,
                    _ => AgentWritten::Changed,
                },
            },
            AdoptedRow::Message(id) => self.message(id)?,
            AdoptedRow::Lease(path) => Written::Lease {
                path,
                was: noun(self.was.as_deref(), rows::LEASE, rows::lease)?,
                is: noun(self.became.as_deref(), rows::LEASE, rows::lease)?,
            },
            AdoptedRow::Baseline => {
                let is = noun(self.became.as_deref(), rows::BASELINE, rows::baseline)?;
                let is = is.ok_or_else(|| Unreadable::absent(0))?;
                Written::Baseline {
                    by: is.set_by,
                    is: is.metrics,
                }
            }
        })
    }

    fn task(&self, json: Option<&str>) -> Result<Option<Box<Task>>, Unreadable> {
        let Some(json) = json else { return Ok(None) };
        let mut image = Image::new(json, rows::TASK)?;
        let texts = match image.values.remove("texts") {
            Some(Value::Array(texts)) => texts,
            _ => vec![
                Value::from(self.text.clone()),
                Value::from(self.result.clone()),
            ],
        };
        for (name, text) in ["description", "result"].into_iter().zip(texts) {
            image.values.insert(name.to_owned(), text);
        }
        let mut task = rows::task(&image)?;
        task.result = task.result.map(|result| as_json(&result));
        Ok(Some(Box::new(task)))
    }

    fn message(self, id: MessageId) -> Result<Written, Unreadable> {
        let payload = as_json(self.text.as_deref().unwrap_or("null"));
        let read = |json: &str| -> Result<(Box<Message>, Option<AgentId>), Unreadable> {
            let mut image = Image::new(json, rows::MESSAGE)?;
            let reader = image.values.remove("reader");
            let reader = reader.and_then(|reader| reader.as_str().map(AgentId::from));
            let mut message = rows::message(&image)?;
            message.payload = payload.clone();
            // A copy of a broadcast stands for the broadcast.
            message.id = id.clone();
            Ok((Box::new(message), reader))
        };
        let was = self.was.as_deref().map(&read).transpose()?;
        let is = self.became.as_deref().map(&read).transpose()?;
        let reader = is.as_ref().and_then(|(_, reader)| reader.clone());
        let is = is.map(|(message, _)| message);
        let named = |kind: &str, field: &str| {
            let is = is.as_ref().filter(|is| is.kind == kind)?;
            let payload: Value = serde_json::from_str(&is.payload).ok()?;
            payload.get(field)?.as_str().map(str::to_owned)
        };
        Ok(Written::Message {
            handoff: named("task.handoff", "taskId").map(TaskId::from),
            lock: named("file.lock_request", "filePath")
                .and_then(|path| LeasePath::parse(&path, "/").ok()),
            id,
            was: was.map(|(message, _)| message),
            is,
            reader,
        })
    }
}

/// Rows as the hub knew them before the first hand that wrote them.
///
/// Later notes of a row tell what a hand had made of it, which the hub never knew.
pub(crate) fn put_before(notes: &[Note], slice: &mut Slice) {
    let mut told = HashSet::new();
    for note in notes {
        if !told.insert(note.row()) {
            continue;
        }
        match &note.written {
            Written::Task { id, was, .. } => slice.put_task(id, was.as_deref().cloned()),
            Written::Agent { id, was, .. } => slice.put_agent(id, was.as_deref().cloned()),
            Written::Message {
                id,
                was,
                reader: None,
                ..
            } => slice.put_message(id, was.as_deref().cloned()),
            Written::Lease { was: Some(was), .. } => slice.put_lease(was.clone()),
            Written::Message {
                reader: Some(_), ..
            }
            | Written::Lease { was: None, .. }
            | Written::Baseline { .. }
            | Written::Unreadable { .. } => {}
        }
    }
}

fn agent(json: Option<&str>) -> Result<Option<Box<switchboard_core::Agent>>, Unreadable> {
    noun(json, rows::AGENT, rows::agent).map(|agent| agent.map(Box::new))
}

fn noun<T>(
    json: Option<&str>,
    columns: &'static str,
    read: impl Fn(&Image) -> Result<T, Unreadable>,
) -> Result<Option<T>, Unreadable> {
    let image = json.map(|json| Image::new(json, columns)).transpose()?;
    image.as_ref().map(read).transpose()
}

/// A text column that other doors fill with JSON: what is none becomes a JSON string.
fn as_json(text: &str) -> Box<str> {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return text.into();
    }
    Value::from(text).to_string().into_boxed_str()
}

/// A row that stands in a note.
struct Image {
    columns: Vec<&'static str>,
    values: Map<String, Value>,
}

impl Image {
    fn new(json: &str, columns: &'static str) -> Result<Image, Unreadable> {
        let values = serde_json::from_str(json).map_err(|_| Unreadable::absent(0))?;
        Ok(Image {
            columns: columns.split(", ").collect(),
            values,
        })
    }

    fn value(&self, column: usize) -> Option<&Value> {
        let name = self.columns.get(column)?;
        self.values.get(*name).filter(|value| !value.is_null())
    }
}

impl Columns for Image {
    type Error = Unreadable;

    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, Unreadable> {
        Ok(self.value(column).map(|value| match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.to_string()),
        }))
    }

    fn int(&self, column: usize) -> Result<Option<i64>, Unreadable> {
        let int = |value: &Value| match value {
            Value::Bool(yes) => Ok(i64::from(*yes)),
            value => value.as_i64().ok_or_else(|| Unreadable::absent(column)),
        };
        self.value(column).map(int).transpose()
    }

    fn real(&self, column: usize) -> Result<Option<f64>, Unreadable> {
        Ok(self.value(column).and_then(Value::as_f64))
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Unreadable> {
        Err(Unreadable::absent(column))
    }
}
