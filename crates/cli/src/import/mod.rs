//! Reading tasks from a file: JSON, NDJSON or a Markdown list.
//!
//! Everything is read and checked before anything is sent, and every problem names its line. Sending is
//! `command::task::import`'s business.

mod identity;
mod json;
mod markdown;
mod plan;
mod tags;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use switchboard_client::jetpack::NewTask;
use switchboard_core::limits;

pub use identity::identify;
pub use plan::{CHUNK_MAX, Plan, plan};
pub use tags::minutes;

/// Largest file that is read.
pub const FILE_MAX: u64 = 64 * 1024 * 1024;
/// Most tasks in one file.
pub const TASKS_MAX: usize = 200_000;

/// The forms a file of tasks may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An array of tasks, `{"tasks": […]}` or one task
    Json,
    /// One task per line
    Ndjson,
    /// A list: '- [ ] title'
    Markdown,
}

/// One task as the file has it, with the line it begins on.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub line: usize,
    pub task: NewTask,
}

/// What is wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub reason: String,
}

/// The text of a file, or of stdin for `-`.
pub fn text(file: &Path) -> io::Result<String> {
    let source: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file)?),
    };
    let mut text = String::new();
    source.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other(format!(
            "it is larger than {FILE_MAX} bytes; split it"
        )));
    }
    Ok(text)
}

impl Problem {
    pub fn at(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// Reads every task of `text`; on any problem, all of them and no task.
pub fn read(text: &str, format: Format) -> Result<Vec<Draft>, Vec<Problem>> {
    let drafts = match format {
        Format::Json => json::document(text),
        Format::Ndjson => json::lines(text),
        Format::Markdown => markdown::parse(text),
    }?;
    let problems: Vec<Problem> = drafts.iter().filter_map(check).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    if drafts.len() > TASKS_MAX {
        let line = drafts[TASKS_MAX].line;
        return Err(vec![Problem::at(
            line,
            format!("more than {TASKS_MAX} tasks in one file; split it"),
        )]);
    }
    Ok(drafts)
}

/// What the hub would refuse in one task, as far as that can be seen from here.
fn check(draft: &Draft) -> Option<Problem> {
    let task = &draft.task;
    let long = |name: &str, text: &str, max: usize| {
        (text.len() > max)
            .then(|| Problem::at(draft.line, format!("the {name} is longer than {max} bytes")))
    };
    let many = |name: &str, count: usize, max: usize| {
        (count > max).then(|| Problem::at(draft.line, format!("more than {max} {name}")))
    };
    if task.title.trim().is_empty() {
        return Some(Problem::at(draft.line, "the title is empty"));
    }
    long("title", &task.title, limits::TITLE_BYTES_MAX)
        .or_else(|| {
            long(
                "description",
                task.description.as_deref()?,
                limits::DESCRIPTION_BYTES_MAX,
            )
        })
        .or_else(|| long("id", task.id.as_deref()?, limits::ID_BYTES_MAX))
        .or_else(|| many("skills", task.required_skills.len(), limits::SKILLS_MAX))
        .or_else(|| {
            many(
                "dependencies",
                task.dependencies.len(),
                limits::DEPENDENCIES_MAX,
            )
        })
        .or_else(|| many("files", task.files.len(), limits::FILES_MAX))
        .or_else(|| {
            many(
                "agents in the audience",
                task.audience.len(),
                limits::AUDIENCE_MAX,
            )
        })
}

/// The format of a file: by its name, else by how its text begins.
pub fn detect(path: Option<&Path>, text: &str) -> Format {
    let extension = path
        .and_then(Path::extension)
        .and_then(|extension| extension.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("json") => Format::Json,
        Some("ndjson" | "jsonl") => Format::Ndjson,
        Some("md" | "markdown") => Format::Markdown,
        _ => sniff(text),
    }
}

fn sniff(text: &str) -> Format {
    match text.trim_start().chars().next() {
        Some('[') => Format::Json,
        Some('{') => match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Format::Json,
            Err(_) => Format::Ndjson,
        },
        _ => Format::Markdown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hub_would_refuse_is_found_before_sending() {
        for (length, fits) in [
            (limits::TITLE_BYTES_MAX - 1, true),
            (limits::TITLE_BYTES_MAX, true),
            (limits::TITLE_BYTES_MAX + 1, false),
        ] {
            let text = format!("- {}", "x".repeat(length));
            assert_eq!(read(&text, Format::Markdown).is_ok(), fits, "{length}");
        }
        let problems = read("{\"title\":\"a\"}\n{\"title\":\" \"}", Format::Ndjson).unwrap_err();
        assert_eq!(problems, [Problem::at(2, "the title is empty")]);
    }

    #[test]
    fn the_name_decides_the_format_and_the_text_decides_without_one() {
        let by_name = |name: &str| detect(Some(Path::new(name)), "- a");
        assert_eq!(by_name("a.json"), Format::Json);
        assert_eq!(by_name("a.JSONL"), Format::Ndjson);
        assert_eq!(by_name("a.ndjson"), Format::Ndjson);
        assert_eq!(by_name("TODO.md"), Format::Markdown);
        assert_eq!(by_name("TODO"), Format::Markdown);
        assert_eq!(detect(None, " [{\"title\":\"a\"}]"), Format::Json);
        assert_eq!(detect(None, "{\"title\":\n\"a\"}"), Format::Json);
        assert_eq!(
            detect(None, "{\"title\":\"a\"}\n{\"title\":\"b\"}\n"),
            Format::Ndjson
        );
    }

    proptest::proptest! {
        /// Whatever a file holds, it is read or refused; and what is read can be ordered or has a named problem.
        #[test]
        fn no_file_makes_the_reader_panic(text in "([-*+ \\[\\]x#@~:`\\\\0-9a-zäß\t\n{}\",]|after:|p:high|```|\"title\":){0,80}") {
            for format in [Format::Json, Format::Ndjson, Format::Markdown] {
                match read(&text, format) {
                    Ok(drafts) => { let _ = plan(drafts); }
                    Err(problems) => proptest::prop_assert!(!problems.is_empty()),
                }
            }
            detect(None, &text);
        }
    }
}
