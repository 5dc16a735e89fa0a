//! What an agent printed: one JSON object, judged in the document's four layers, each failure by its name.
//!
//! The file system is asked by a closure, so that the same judgement is made of a file, of a stored text and in a test.
//! What follows of it for the job is [`switchboard_core::job`]'s to say.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use switchboard_core::job::JobAction;
use switchboard_core::job_history::Violation;
use switchboard_core::limits;

use super::metrics::Reported;
use super::schemas::{self, Published};
use crate::malformed::{TOO_DEEP, too_deep};
use crate::{Malformed, redact};

/// What is asked of a response.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// The request's `accepted_formats`.
    pub accepted: &'a [JobAction],
    /// Without one, files are not looked for.
    pub workspace: Option<&'a Workspace<'a>>,
}

impl Default for Terms<'_> {
    fn default() -> Self {
        Terms {
            accepted: JobAction::ALL,
            workspace: None,
        }
    }
}

/// Where evidence lies.
#[derive(Clone, Copy)]
pub struct Workspace<'a> {
    /// With all links followed.
    pub root: &'a Path,
    /// Where a path leads, with all links followed; nothing where nothing is.
    pub leads: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

/// How a response is not as it must be, with the member to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub violation: Violation,
    pub what: Malformed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.violation, self.what)
    }
}

/// What a response says, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// STUCK where there is any fault.
    pub action: JobAction,
    pub evidence_files: Vec<String>,
    pub summary: String,
    /// By layer: the first one gives its name to the whole.
    pub faults: Vec<Fault>,
    /// Evidence that does not exist: the response counts all the same.
    pub missing: Vec<Malformed>,
    pub warnings: Vec<String>,
    pub reported: Reported,
}

const SENTENCES_MAX: usize = 3;
/// So many missing files are named.
const NAMED_MAX: usize = 5;

/// Whether a response is valid; if not, all that is wrong with it. If it is strict, evidence must exist.
pub fn validate(raw: &str, terms: &Terms<'_>, is_strict: bool) -> Result<(), Vec<String>> {
    let found = judge(raw, terms);
    let missing = found.missing.iter().filter(|_| is_strict).map(missing);
    let wrong: Vec<String> = found
        .faults
        .iter()
        .map(ToString::to_string)
        .chain(missing)
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn missing(what: &Malformed) -> String {
    format!("file_path_invalid: {what}")
}

/// An agent's output as it is stored: without secrets.
pub fn sanitized(raw: &str) -> String {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok();
    let clean = if is_json {
        redact::json(raw)
    } else {
        redact::text(raw)
    };
    clean.into_owned()
}

/// Judges what an agent printed.
pub fn judge(raw: &str, terms: &Terms<'_>) -> Judgement {
    let mut found = Judgement {
        action: JobAction::Stuck,
        evidence_files: Vec::new(),
        summary: String::new(),
        faults: Vec::new(),
        missing: Vec::new(),
        warnings: Vec::new(),
        reported: Reported::default(),
    };
    match one_object(raw, &mut found.warnings) {
        Ok(members) => found.look_at(members, terms),
        Err(why) => found.blame(Violation::Malformed, Malformed::whole(why)),
    }
    if !found.faults.is_empty() {
        found.action = JobAction::Stuck;
    }
    found
        .warnings
        .extend(found.missing.iter().take(NAMED_MAX).map(missing));
    if let Some(more) = found
        .missing
        .len()
        .checked_sub(NAMED_MAX)
        .filter(|more| *more > 0)
    {
        found.warnings.push(format!(
            "file_path_invalid: {more} more evidence_files do not exist in the workspace"
        ));
    }
    found
}

impl Judgement {
    /// All faults in one text, for the person who is asked.
    pub fn error(&self) -> Option<String> {
        let each: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        let text = each.join("; ");
        (!each.is_empty()).then(|| limits::cut(&text, limits::NOTE_BYTES_MAX).to_owned())
    }

    fn blame(&mut self, violation: Violation, what: Malformed) {
        self.faults.push(Fault { violation, what });
    }

    fn look_at(&mut self, mut members: Map<String, Value>, terms: &Terms<'_>) {
        let wrapped = match members.get_mut("response") {
            Some(Value::Object(inner)) => Some(std::mem::take(inner)),
            _ => None,
        };
        let is_old = wrapped.is_some() && !members.contains_key("action");
        if let Some(inner) = wrapped.filter(|_| is_old) {
            members = inner;
            self.warnings
                .push("it is wrapped in \"response\", as an earlier schema asked; print the object itself".to_owned());
        }
        let value = Value::Object(members);
        self.structure(&value, is_old);
        self.act(&value["action"], terms);
        self.evidence(&value["evidence_files"], terms);
        self.summarize(&value["summary_for_supervisor"], is_old);
        self.reported = Reported::read(&value["metrics"], &mut self.warnings);
    }

    /// The first layer. What the others say more precisely is left to them.
    fn structure(&mut self, value: &Value, is_old: bool) {
        let summary = value["summary_for_supervisor"].as_str();
        let may_be_long = is_old
            && summary
                .is_some_and(|text| text.chars().count() <= limits::JOB_SUMMARY_CHARS_OLD_MAX);
        for fault in Published::newest(schemas::CHAT).faults(value) {
            let is_named = match fault.field.as_deref() {
                Some("action") => true,
                Some(SUMMARY) => value.get(SUMMARY).is_none() || (may_be_long && summary.is_some()),
                Some(_) | None => false,
            };
            if !is_named {
                self.blame(Violation::Schema, fault);
            }
        }
    }

    fn act(&mut self, action: &Value, terms: &Terms<'_>) {
        let given = action.as_str().and_then(JobAction::parse);
        if let Some(action) = given.filter(|action| terms.accepted.contains(action)) {
            self.action = action;
            return;
        }
        let words: Vec<&str> = terms
            .accepted
            .iter()
            .map(|action| action.as_str())
            .collect();
        let given = match action {
            Value::Null => "none".to_owned(),
            other => limits::cut(&other.to_string(), SHOWN_BYTES_MAX).to_owned(),
        };
        let message = format!(
            "expected exactly one of {}, found {given}",
            words.join(", ")
        );
        self.blame(Violation::Action, Malformed::field("action", message));
    }

    fn evidence(&mut self, files: &Value, terms: &Terms<'_>) {
        let given = files.as_array().map(Vec::as_slice).unwrap_or_default();
        for (at, path) in given.iter().take(limits::JOB_EVIDENCE_MAX).enumerate() {
            let Some(path) = path.as_str() else { continue };
            match place(path, terms.workspace) {
                Ok(true) => {}
                Ok(false) => {
                    let why = format!("{} does not exist in the workspace", short(path));
                    self.missing
                        .push(Malformed::field(format!("evidence_files[{at}]"), why));
                }
                Err(why) => {
                    self.blame(
                        Violation::Schema,
                        Malformed::field(format!("evidence_files[{at}]"), why),
                    );
                    continue;
                }
            }
            self.evidence_files.push(path.to_owned());
        }
        if given.len() > limits::JOB_EVIDENCE_MAX {
            let (all, most) = (given.len(), limits::JOB_EVIDENCE_MAX);
            self.warnings
                .push(format!("of {all} evidence_files the first {most} count"));
        }
    }

    fn summarize(&mut self, summary: &Value, is_old: bool) {
        let given = summary.as_str().unwrap_or_default();
        let mut clean =
            String::with_capacity(given.len().min(4 * limits::JOB_SUMMARY_CHARS_OLD_MAX));
        for letter in given.chars().take(limits::JOB_SUMMARY_CHARS_OLD_MAX) {
            match letter {
                '\n' | '\r' | '\t' => clean.push(' '),
                control if control.is_control() => {}
                other => clean.push(other),
            }
        }
        let clean = clean.trim();
        if clean.is_empty() && (summary.is_null() || summary.is_string()) {
            let why = "is missing or blank; what was done must be looked at in detail";
            self.blame(Violation::Summary, Malformed::field(SUMMARY, why));
        }
        let count = given.chars().count();
        if is_old
            && (limits::JOB_SUMMARY_CHARS_MAX + 1..=limits::JOB_SUMMARY_CHARS_OLD_MAX)
                .contains(&count)
        {
            let most = limits::JOB_SUMMARY_CHARS_MAX;
            self.warnings.push(format!(
                "{SUMMARY} has {count} characters; print at most {most}"
            ));
        }
        if sentences(clean) > SENTENCES_MAX {
            self.warnings
                .push(format!("{SUMMARY} has more than {SENTENCES_MAX} sentences"));
        }
        self.summary = clean.to_owned();
    }
}

const SUMMARY: &str = "summary_for_supervisor";
/// Of what an agent printed so much is shown.
const SHOWN_BYTES_MAX: usize = 80;

fn short(text: &str) -> String {
    format!("{:?}", limits::cut(text, SHOWN_BYTES_MAX))
}

fn sentences(text: &str) -> usize {
    let ends = |word: &&str| word.ends_with(['.', '!', '?']);
    let words: Vec<&str> = text.split_whitespace().collect();
    let ended = words.iter().filter(|word| ends(word)).count();
    ended + usize::from(words.last().is_some_and(|last| !ends(last)))
}

/// Whether something is there; an error where the path leads out of the workspace or is none.
fn place(path: &str, workspace: Option<&Workspace<'_>>) -> Result<bool, String> {
    let outside = || {
        format!(
            "{} leads out of the workspace; expected a path relative to its root",
            short(path)
        )
    };
    if path.is_empty() || path.contains('\0') || path.len() > limits::PATH_BYTES_MAX {
        let most = limits::PATH_BYTES_MAX;
        return Err(format!(
            "{} is no path: expected 1 to {most} bytes without NUL",
            short(path)
        ));
    }
    let mut depth = 0_usize;
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth = depth.checked_sub(1).ok_or_else(outside)?,
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    let Some(workspace) = workspace else {
        return Ok(true);
    };
    let whole = workspace.root.join(path);
    // Of what is not there, the nearest that is tells where it would be.
    for (above, part) in whole.ancestors().enumerate() {
        if let Some(real) = (workspace.leads)(part) {
            return match real.starts_with(workspace.root) {
                true => Ok(above == 0),
                false => Err(outside()),
            };
        }
    }
    Ok(false)
}

/// The members of the one object that a text is.
fn one_object(raw: &str, warnings: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let wanted = "expected exactly one JSON object and nothing around it";
    let mut text = raw.trim();
    if let Some(inner) = unfenced(text) {
        warnings.push("the JSON object is in a code fence; print the object itself".to_owned());
        text = inner;
    }
    match text.chars().next() {
        None => return Err(format!("the response is empty; {wanted}")),
        Some('{') => {}
        Some('[') => return Err(format!("the response is a list; {wanted}")),
        Some('\u{feff}') => {
            return Err(format!(
                "the response begins with a byte order mark; {wanted}"
            ));
        }
        Some(_) => {
            return Err(format!(
                "the response begins with {}; {wanted}",
                short(text)
            ));
        }
    }
    if too_deep(text.as_bytes()) {
        return Err(TOO_DEEP.to_owned());
    }
    let mut read = serde_json::Deserializer::from_str(text).into_iter::<Members>();
    let members = match read.next() {
        Some(Ok(Members(members))) => members,
        Some(Err(error)) if error.is_eof() => {
            return Err(format!(
                "the response ends before the JSON object does; {wanted}"
            ));
        }
        Some(Err(error)) => return Err(format!("the response is not valid JSON: {error}")),
        None => return Err(format!("the response is empty; {wanted}")),
    };
    let rest = text[read.byte_offset()..].trim_start();
    match rest.chars().next() {
        None => Ok(members),
        Some('{') => Err(format!(
            "the response has more than one JSON object; {wanted}"
        )),
        Some(_) => Err(format!(
            "the JSON object is followed by {}; {wanted}",
            short(rest)
        )),
    }
}

/// What is in the one code fence that a text is.
fn unfenced(text: &str) -> Option<&str> {
    let (info, body) = text.strip_prefix("```")?.split_once('\n')?;
    let is_word = info.trim().chars().all(char::is_alphanumeric);
    let body = body.strip_suffix("```").filter(|_| is_word)?;
    Some(body.trim())
}

/// An object each member of which is given once: of two actions none would count.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Members, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = given.next_entry::<String, Value>()? {
                    if members.contains_key(&name) {
                        let why = format_args!("the member {} is given twice", short(&name));
                        return Err(A::Error::custom(why));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests;
