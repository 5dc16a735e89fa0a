//! What a person changed in a job's manifest or in the index, taken in as requests: member by member, each by a verb.
//!
//! What was changed is told by the copy of what was written last, so that a file that is behind asks for nothing. What no
//! rule allows is put back, and the job's history says why.

use serde_json::{Map, Value, json};
use switchboard_core::JobId;
use switchboard_core::job::{Job, JobRole, JobSpec, NewLimits};
use switchboard_core::limits;
use switchboard_core::verb::job::{ChangeJob, JobActor, NoteJob, SelectJob};
use switchboard_wire::logist::files::Index;
use switchboard_wire::logist::spec::Spec;
use switchboard_wire::logist::words;

use super::Jobs;
use super::directory::Directory;
use super::files::Files;
use crate::hub::Error;

const EDITED: &str = "edited by hand";
const UNDONE: &str = "edit undone";
/// Members of a manifest that follow from what happens.
const OURS: [&str; 14] = [
    "schema_version",
    "job_id",
    "status_detail",
    "metrics",
    "resume_to",
    "guidance",
    "task_id",
    "directory",
    "corr_id",
    "created_at",
    "updated_at",
    "ended_at",
    "history",
    "warnings",
];
/// So much is said of why an edit was undone.
const REASON_BYTES_MAX: usize = 2000;

impl Jobs {
    /// Takes in what was edited of a job and of the index, and writes them anew. Comes before commands and runs.
    pub async fn look(&self, id: Option<&JobId>) -> Result<(), Error> {
        let mut files = self.files.lock().await;
        self.look_at(&mut files, id).await
    }

    /// The same for who only reads: while files are written, whoever writes them looks.
    pub async fn glance(&self, id: Option<&JobId>) -> Result<(), Error> {
        match self.files.try_lock() {
            Ok(mut files) => self.look_at(&mut files, id).await,
            Err(_) => Ok(()),
        }
    }

    async fn look_at(&self, files: &mut Files, id: Option<&JobId>) -> Result<(), Error> {
        if !self.duty.standing().is_held {
            return Ok(());
        }
        self.look_at_index(files).await?;
        match id {
            Some(id) => self.look_at_job(files, id).await,
            None => Ok(()),
        }
    }

    pub(super) async fn look_at_job(&self, files: &mut Files, id: &JobId) -> Result<(), Error> {
        let Some(job) = self.job(id).await? else {
            return Ok(());
        };
        let directory = Directory::new(&job.directory);
        // One that cannot be read is told of when it is written.
        if let Some((edited, base)) = directory.edited().ok().flatten() {
            self.take_in(job, &edited, &base).await?;
            let written = self.write_job(id).await?;
            files.complain(Some(id), written);
        }
        Ok(())
    }

    async fn take_in(&self, job: Job, edited: &[u8], base: &[u8]) -> Result<(), Error> {
        let mut undone = Vec::new();
        let (edited, base) = (object(edited), object(base));
        match (edited, base) {
            (Ok(edited), base) => {
                let base = base.unwrap_or_default();
                for (member, value) in requests(&edited, &base) {
                    if let Err(why) = self.request(&job.id, &member, value).await? {
                        undone.push(format!("{member}: {why}"));
                    }
                }
            }
            (Err(why), _) => undone.push(why),
        }
        if undone.is_empty() {
            return Ok(());
        }
        let why = undone.join("; ");
        tracing::warn!(job.id = %job.id, "an edit of the manifest of job {} was undone: {why}", job.id);
        let note = NoteJob {
            actor: by_hand(Some(limits::cut(&why, REASON_BYTES_MAX).to_owned())),
            job: job.id,
            word: UNDONE,
        };
        self.hub.run(note).await
    }

    /// One member; why it cannot be.
    async fn request(
        &self,
        id: &JobId,
        member: &str,
        value: Value,
    ) -> Result<Result<(), String>, Error> {
        let key = id.to_string();
        let read = self.hub.read(move |ledger| {
            Ok((
                ledger.private::<Job>(key.clone())?,
                ledger.private::<JobSpec>(key)?,
            ))
        });
        let (Some(job), Some(spec)) = read.await? else {
            return Ok(Ok(()));
        };
        let change = match change(&job, &spec, member, value) {
            Ok(change) => change,
            Err(why) => return Ok(Err(why)),
        };
        match self.hub.run(change).await {
            Ok(_) => Ok(Ok(())),
            Err(Error::Refused(refusal)) => Ok(Err(refusal.to_string())),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn look_at_index(&self, files: &mut Files) -> Result<(), Error> {
        let Some((edited, base)) = files.edited_index().ok().flatten() else {
            return Ok(());
        };
        let base = Index::read(&base).unwrap_or_default();
        match Index::read(&edited) {
            Ok(edited) => self.take_index_in(&edited, &base).await?,
            Err(why) => tracing::warn!("an edit of the index of jobs was undone: {why}"),
        }
        let written = self.write_index(files).await?;
        files.complain(None, written);
        Ok(())
    }

    async fn take_index_in(&self, edited: &Index, base: &Index) -> Result<(), Error> {
        let mut undone = Vec::new();
        if edited.current_job_id != base.current_job_id {
            let job = edited.current_job_id.as_deref().map(JobId::from);
            undone.extend(refused(self.hub.run(SelectJob { job }).await)?);
        }
        if edited.queue != base.queue {
            // Each in its turn to the front, the last one first.
            for id in edited.queue.iter().take(limits::JOB_RANK_MAX).rev() {
                let change = ChangeJob {
                    rank: Some(0),
                    ..unchanged(&JobId::from(id.as_str()))
                };
                undone.extend(refused(self.hub.run(change).await)?);
            }
        }
        if edited.jobs != base.jobs {
            undone.push("jobs are made and moved by commands".to_owned());
        }
        if !undone.is_empty() {
            tracing::warn!(
                "of an edit of the index of jobs this was undone: {}",
                undone.join("; ")
            );
        }
        Ok(())
    }
}

fn refused<T>(outcome: Result<T, Error>) -> Result<Option<String>, Error> {
    match outcome {
        Ok(_) => Ok(None),
        Err(Error::Refused(refusal)) => Ok(Some(refusal.to_string())),
        Err(error) => Err(error),
    }
}

fn by_hand(why: Option<String>) -> JobActor {
    JobActor {
        role: JobRole::Steward,
        by: "hand".to_owned(),
        why,
    }
}

fn unchanged(job: &JobId) -> ChangeJob {
    ChangeJob {
        job: job.clone(),
        actor: by_hand(None),
        word: EDITED,
        spec: None,
        limits: NewLimits::default(),
        rank: None,
        state: None,
        phase: None,
    }
}

/// Members that were changed or added, each as a request; the state last, because others may decide about it.
fn requests(edited: &Map<String, Value>, base: &Map<String, Value>) -> Vec<(String, Value)> {
    let changed = edited
        .iter()
        .filter(|(member, value)| base.get(*member) != Some(value));
    let mut requests: Vec<(String, Value)> = changed
        .map(|(member, value)| (member.clone(), value.clone()))
        .collect();
    let order = |member: &str| match member {
        "phases" => 0,
        "current_phase" => 2,
        "status" => 3,
        _ => 1,
    };
    requests.sort_by_key(|(member, _)| order(member));
    requests
}

fn object(text: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("the manifest is no JSON object".to_owned()),
        Err(error) => Err(format!("the manifest is not valid JSON: {error}")),
    }
}

fn change(job: &Job, spec: &JobSpec, member: &str, value: Value) -> Result<ChangeJob, String> {
    let plain = unchanged(&job.id);
    match member {
        member if OURS.contains(&member) => {
            Err("it follows from what happens, and is put back".to_owned())
        }
        "status" => {
            let word = value.as_str().ok_or("expected a text")?;
            let state = words::state("status", word).map_err(|error| error.to_string())?;
            Ok(ChangeJob {
                state: Some(state),
                ..plain
            })
        }
        "current_phase" => {
            let place = spec
                .phases
                .iter()
                .position(|phase| value == phase.name.as_str());
            let phase = place.ok_or_else(|| format!("there is no phase {value}"))?;
            Ok(ChangeJob {
                phase: Some(phase),
                ..plain
            })
        }
        member => {
            let given: Spec = serde_json::from_value(json!({ member: value }))
                .map_err(|error| error.to_string())?;
            let mut given = given;
            if !given.other.is_empty() {
                // Those that are there stay.
                let known = spec
                    .other
                    .as_deref()
                    .and_then(|text| serde_json::from_str(text).ok());
                let mut all: switchboard_wire::Other = known.unwrap_or_default();
                all.extend(given.other);
                given.other = all;
            }
            let limits = given.limits().map_err(|error| error.to_string())?;
            let changed = given
                .over(spec.clone())
                .map_err(|error| error.to_string())?;
            Ok(ChangeJob {
                spec: (changed != *spec).then(|| Box::new(changed)),
                limits,
                ..plain
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::logist::spec;

    use super::*;

    fn members(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn only_what_differs_from_what_was_written_is_asked_for() {
        let base = members(json!({ "status": "PENDING", "description": "a", "x": 1 }));
        assert_eq!(requests(&base, &base), []);
        let edited = members(
            json!({ "status": "DRAFT", "description": "b", "phases": [], "current_phase": null }),
        );
        let asked = requests(&edited, &base);
        let asked: Vec<&str> = asked.iter().map(|(member, _)| member.as_str()).collect();
        assert_eq!(asked, ["phases", "description", "current_phase", "status"]);
    }

    #[test]
    fn a_member_becomes_a_request_or_a_reason() {
        let spec = spec::fresh("j".into());
        let job = crate::jobs::testing::job("j");
        let asked = |member: &str, value: Value| change(&job, &spec, member, value);
        let described = asked("description", json!("new")).unwrap();
        assert_eq!(described.spec.unwrap().description, "new");
        assert_eq!(
            asked("cost_threshold", json!(5))
                .unwrap()
                .limits
                .cost_micros,
            Some(50_000)
        );
        assert_eq!(
            asked("current_phase", json!("default")).unwrap().phase,
            Some(0)
        );
        assert!(asked("status", json!("SUSPENDED")).unwrap().state.is_some());
        let other = asked("mine", json!({ "a": 1 })).unwrap();
        assert_eq!(
            other.spec.unwrap().other.as_deref(),
            Some(r#"{"mine":{"a":1}}"#)
        );
        for (member, value, part) in [
            ("job_id", json!("k"), "put back"),
            ("metrics", json!({}), "put back"),
            ("history", json!([]), "put back"),
            ("status", json!("DONE"), "expected one of"),
            ("status", json!(7), "expected a text"),
            ("current_phase", json!("none"), "there is no phase"),
            ("cost_threshold", json!(-1), "must be from 0"),
            ("cost_threshold", json!("much"), "expected"),
            (
                "phases",
                json!([{ "name": "a" }, { "name": "a" }]),
                "two phases",
            ),
        ] {
            let error = asked(member, value).unwrap_err();
            assert!(error.contains(part), "{member}: {error}");
        }
    }
}
