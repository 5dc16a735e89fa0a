//! Notes of hand writes, read as nouns: the same for every engine that has them.
//!
//! A note holds the row before and after as JSON under the names of its columns. Large texts that no hand changed are
//! left out of it and taken from the row as it stands.

use std::borrow::Cow;

use serde_json::{Map, Value};
use switchboard_core::changes::AdoptedRow;
use switchboard_core::verb::{AgentWritten, Note, Written};
use switchboard_core::{
    Agent, AgentId, Ask, Lease, LeasePath, Message, MessageId, Metrics, Slice, Task, TaskState,
};

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
    /// The rev of the row as it stands, if there is one.
    pub rev: Option<i64>,
    /// A task's description, a message's payload.
    pub text: Option<String>,
    pub result: Option<String>,
    /// A task's description and result before the first later note that changed them, as a JSON array.
    pub texts: Option<String>,
    /// What the snapshot that a task points to has measured.
    pub metrics: Option<Metrics>,
}

impl RawNote {
    /// The row as the hub knew it before any hand wrote it, for the working set.
    ///
    /// Only the first note of a row can tell: what the hub has not seen yet has no rev, and once a note of a row is taken
    /// in, the row itself is the hub's again, under a later rev than the notes that are left know of.
    pub fn put_before(&self, slice: &mut Slice) {
        let Some(was) = self.was.as_deref() else {
            return;
        };
        let is_hubs = |rev: u64| {
            let stands = self.rev.map_or(0, i64::unsigned_abs);
            rev > 0 && stands <= rev
        };
        match self.row() {
            AdoptedRow::Task(id) => {
                if let Ok(Some(task)) = self.task(Some(was))
                    && is_hubs(task.rev)
                {
                    slice.put_task(&id, Some(*task));
                }
            }
            AdoptedRow::Agent(id) => {
                if let Ok(Some(agent)) = agent(Some(was))
                    && is_hubs(agent.rev)
                {
                    slice.put_agent(&id, Some(*agent));
                }
            }
            AdoptedRow::Message(id) => {
                // A copy is not the hub's row.
                if let Ok((message, None)) = self.one_message(was)
                    && message.id == id
                    && is_hubs(message.rev)
                {
                    slice.put_row(*message);
                }
            }
            AdoptedRow::Lease(_) => {
                if let Ok(Some(lease)) = noun(Some(was), rows::LEASE, rows::lease)
                    && is_hubs(lease.rev)
                {
                    slice.put_row(lease);
                }
            }
            AdoptedRow::Baseline => {}
        }
    }

    /// About how much text it carries.
    pub fn bytes(&self) -> usize {
        let texts = [
            &self.was,
            &self.became,
            &self.text,
            &self.result,
            &self.texts,
        ];
        texts.into_iter().flatten().map(String::len).sum()
    }

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
            "leases" => AdoptedRow::Lease(self.lease_path()),
            _ => AdoptedRow::Baseline,
        }
    }

    /// The normal form of a lease's path: the row is called as a hand spelled it.
    pub fn lease_path(&self) -> LeasePath {
        let rows = [self.became.as_deref(), self.was.as_deref()].into_iter();
        let mut leases = rows.filter_map(|row| noun(row, rows::LEASE, rows::lease).ok().flatten());
        let path = leases.next().map(|lease: Lease| lease.path);
        path.unwrap_or_else(|| LeasePath::stored(&self.key))
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
            _ => match self.texts.as_deref().map(serde_json::from_str) {
                Some(Ok(Value::Array(texts))) => texts,
                _ => vec![
                    Value::from(self.text.clone()),
                    Value::from(self.result.clone()),
                ],
            },
        };
        for (name, text) in ["description", "result"].into_iter().zip(texts) {
            image.values.insert(name.to_owned(), text);
        }
        let mut task = rows::task(&image)?;
        // Of a claim by hand only the public column tells when.
        if let TaskState::Claimed { at, .. } | TaskState::InProgress { at, .. } = &mut task.state
            && let Some(claimed) = image.values.get("claimed_at").and_then(Value::as_str)
        {
            *at = switchboard_core::iso::parse(claimed).unwrap_or(*at);
        }
        task.result = task.result.map(|result| as_json(&result));
        Ok(Some(Box::new(task)))
    }

    /// With whose copy it is, if it is one.
    fn one_message(&self, json: &str) -> Result<(Box<Message>, Option<AgentId>), Unreadable> {
        let mut image = Image::new(json, rows::MESSAGE)?;
        let reader = image.values.remove("reader");
        let reader = reader.and_then(|reader| reader.as_str().map(AgentId::from));
        let mut message = rows::message(&image)?;
        message.payload = as_json(self.text.as_deref().unwrap_or("null"));
        Ok((Box::new(message), reader))
    }

    fn message(self, id: MessageId) -> Result<Written, Unreadable> {
        let read = |json: &str| {
            let (mut message, reader) = self.one_message(json)?;
            // A copy of a broadcast stands for the broadcast.
            message.id = id.clone();
            Ok((message, reader))
        };
        let was = self.was.as_deref().map(read).transpose()?;
        let is = self.became.as_deref().map(read).transpose()?;
        let reader = is.as_ref().and_then(|(_, reader)| reader.clone());
        let is = is.map(|(message, _)| message);
        Ok(Written::Message {
            id,
            was: was.map(|(message, _)| message),
            is,
            reader,
        })
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

/// A range that was read has what a hand made of the rows. Of what was found and what notes are about, leaves what is so
/// by the working set.
pub(crate) fn put_right(ask: &Ask, agents: &[AgentId], leases: &[LeasePath], slice: &mut Slice) {
    let that = |slice: &Slice, found: Option<Vec<LeasePath>>, is_so: &dyn Fn(&Lease) -> bool| {
        let mut paths = found.unwrap_or_default();
        paths.extend_from_slice(leases);
        paths.retain(|path| slice.lease(path).is_some_and(is_so));
        paths.sort();
        paths.dedup();
        paths
    };
    match ask {
        Ask::PresentAgents => {
            let mut present = slice.ranges.present_agents.take().unwrap_or_default();
            present.extend_from_slice(agents);
            present.retain(|id| {
                let known = slice.known::<Agent>(id).flatten();
                known.is_some_and(|agent| !agent.is_gone())
            });
            present.sort();
            present.dedup();
            slice.ranges.present_agents = Some(present);
        }
        Ask::LeasesNear(path) => {
            let found = slice.ranges.leases_near.remove(path);
            let found = that(slice, found, &|lease| lease.path.overlaps(path));
            slice.ranges.leases_near.insert(path.clone(), found);
        }
        Ask::LeasesOfAgent(agent) => {
            let found = slice.ranges.leases_of_agent.remove(agent);
            let found = that(slice, found, &|lease| lease.agent == *agent);
            slice.ranges.leases_of_agent.insert(agent.clone(), found);
        }
        Ask::LeasesOfTask(task) => {
            let found = slice.ranges.leases_of_task.remove(task);
            let found = that(slice, found, &|lease| lease.task.as_ref() == Some(task));
            slice.ranges.leases_of_task.insert(task.clone(), found);
        }
        _ => {}
    }
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
