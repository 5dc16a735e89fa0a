//! Tasks as JSON: an array, `{"tasks": […]}`, one object, or one object per line.

use serde_json::value::RawValue;
use switchboard_client::jetpack::NewTask;
use switchboard_wire::in_words;

use super::{Draft, Problem};

/// Reads a whole document.
pub fn document(text: &str) -> Result<Vec<Draft>, Vec<Problem>> {
    let mut lines = Lines {
        text,
        offset: 0,
        line: 1,
    };
    collect(
        elements(text)?
            .into_iter()
            .map(|raw| (lines.at(raw.get()), raw.get())),
    )
}

/// Reads one task per line; blank lines are passed over.
pub fn lines(text: &str) -> Result<Vec<Draft>, Vec<Problem>> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    collect(lines.map(|(index, line)| (index + 1, line)))
}

fn elements(text: &str) -> Result<Vec<&RawValue>, Vec<Problem>> {
    #[derive(serde::Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        tasks: Option<Vec<&'a RawValue>>,
    }
    let syntax =
        |error: serde_json::Error| vec![Problem::at(error.line(), without_position(&error))];
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(syntax);
    }
    let whole: &RawValue = serde_json::from_str(text).map_err(syntax)?;
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(syntax)?;
    Ok(envelope.tasks.unwrap_or_else(|| vec![whole]))
}

fn collect<'a>(items: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<Draft>, Vec<Problem>> {
    let mut drafts = Vec::new();
    let mut problems = Vec::new();
    for (line, text) in items {
        match serde_json::from_str::<NewTask>(text) {
            Ok(task) => drafts.push(Draft { line, task }),
            Err(error) => {
                let at = line + error.line().saturating_sub(1);
                problems.push(Problem::at(at, without_position(&error)));
            }
        }
    }
    if problems.is_empty() {
        Ok(drafts)
    } else {
        Err(problems)
    }
}

/// Tells the lines of ever later parts of a text.
struct Lines<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line that `part`, a slice of the text, begins on.
    fn at(&mut self, part: &str) -> usize {
        let offset = part
            .as_ptr()
            .addr()
            .saturating_sub(self.text.as_ptr().addr());
        let passed = self
            .text
            .as_bytes()
            .get(self.offset..offset)
            .unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.offset = self.offset.max(offset);
        self.line
    }
}

/// serde_json's position is relative to the element; ours is to the file.
fn without_position(error: &serde_json::Error) -> String {
    in_words(&error.to_string())
}

#[cfg(test)]
mod tests {
    use switchboard_client::jetpack::TaskType;

    use super::*;

    #[test]
    fn arrays_envelopes_and_single_objects_are_read() {
        let task = r#"{"title":"a","priority":"high","requiredSkills":["rust"],"type":"test","unknown":1}"#;
        for text in [
            format!("[{task}]"),
            format!("{{\"tasks\":[{task}]}}"),
            task.to_owned(),
        ] {
            let drafts = document(&text).unwrap();
            assert_eq!(drafts.len(), 1);
            assert_eq!(drafts[0].task.title, "a");
            assert_eq!(drafts[0].task.kind, Some(TaskType::Test));
        }
    }

    #[test]
    fn every_element_knows_its_line() {
        let drafts = document("[\n {\"title\":\"a\"},\n\n {\"title\":\"b\"}]").unwrap();
        assert_eq!((drafts[0].line, drafts[1].line), (2, 4));
        let drafts = lines("{\"title\":\"a\"}\n\n{\"title\":\"b\"}\n").unwrap();
        assert_eq!((drafts[0].line, drafts[1].line), (1, 3));
    }

    #[test]
    fn a_wrong_type_names_the_line_it_stands_on() {
        let problems =
            document("[\n {\"title\":\"a\"},\n {\"title\":\"b\",\n  \"requiredSkills\":7}]")
                .unwrap_err();
        assert_eq!(problems[0].line, 4);
        assert!(
            !problems[0].reason.contains("at line"),
            "{}",
            problems[0].reason
        );
        let problems = lines("{\"title\":\"a\"}\n{\"titel\":\"b\"}\nnonsense\n").unwrap_err();
        assert_eq!(
            problems
                .iter()
                .map(|problem| problem.line)
                .collect::<Vec<_>>(),
            [2, 3]
        );
        assert!(
            problems[0].reason.contains("title"),
            "{}",
            problems[0].reason
        );
    }

    #[test]
    fn broken_json_is_one_problem_at_its_line() {
        let problems = document("[\n{\"title\":\"a\"},\n{]").unwrap_err();
        assert_eq!((problems.len(), problems[0].line), (1, 3));
    }
}
