//! Scene files: read whole, every mistake told with its file and line.

use std::fmt;
use std::path::Path;

use switchboard_core::GatePolicy;

use super::act::{self, Deed};
use super::line::{self, Given};

pub struct Scene {
    /// The file's name.
    pub name: String,
    /// The comment it opens with.
    pub about: String,
    pub policy: GatePolicy,
    pub steps: Vec<Step>,
}

pub struct Step {
    pub place: Place,
    pub text: String,
    pub deed: Deed,
    pub expected: Vec<Expected>,
}

#[derive(Clone)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One item of an expected outcome.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The answer's item has to begin with these.
    pub words: Vec<String>,
    /// Members of the item that have to have these values.
    pub facts: Vec<(String, String)>,
    /// What the message for a person has to contain.
    pub message: Option<String>,
}

/// Every scene there is, by name.
pub fn all() -> Vec<Scene> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(&folder).expect("tests/scenarios can be listed");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("tests/scenarios can be listed").file_name())
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".scene"))
        .collect();
    names.sort();
    let read = |name: &String| {
        let text = std::fs::read_to_string(folder.join(name)).expect("a scene is text");
        parse(name, &text).unwrap_or_else(|mistake| panic!("{mistake}"))
    };
    names.iter().map(read).collect()
}

/// Reads a scene; `name` is for its mistakes.
pub fn parse(name: &str, text: &str) -> Result<Scene, String> {
    let mut scene = Scene {
        name: name.to_owned(),
        about: String::new(),
        policy: GatePolicy::default(),
        steps: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let place = Place {
            file: format!("tests/scenarios/{name}"),
            line: index + 1,
        };
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            if index == 0 {
                scene.about = comment.trim().to_owned();
            }
        } else if !line.is_empty() {
            parse_line(&mut scene, &place, line).map_err(|why| format!("{place}: {why}"))?;
        }
    }
    Ok(scene)
}

fn parse_line(scene: &mut Scene, place: &Place, line: &str) -> Result<(), String> {
    let (told, outcome) = match line.split_once("->") {
        Some((told, outcome)) => (told, Some(outcome)),
        None => (line, None),
    };
    let words = line::words(told)?;
    let (name, given) = words.split_first().ok_or("which step?")?;
    if name == "policy" {
        if !scene.steps.is_empty() {
            return Err("`policy` must come before the first step".to_owned());
        }
        scene.policy = policy(Given::new(given))?;
        return Ok(());
    }
    let deed = act::parse(name, given)?;
    let expected = match outcome {
        Some(outcome) => expectations(outcome)?,
        None if deed.moves_time() => Vec::new(),
        None => return Err("what is expected? write `-> …`".to_owned()),
    };
    scene.steps.push(Step {
        place: place.clone(),
        text: line.to_owned(),
        deed,
        expected,
    });
    Ok(())
}

/// Items parted by commas, each words then facts; after `~` a part of the message.
fn expectations(outcome: &str) -> Result<Vec<Expected>, String> {
    let (items, message) = match outcome.split_once(" ~ ") {
        Some((items, message)) => (items, Some(message.trim().to_owned())),
        None => (outcome, None),
    };
    let mut all = vec![Expected::default()];
    let mut open = false;
    for word in line::words(items)? {
        if open {
            all.push(Expected::default());
        }
        open = word.ends_with(',');
        let word = word.strip_suffix(',').unwrap_or(&word);
        let item = all.last_mut().expect("there is always one item");
        match word.split_once('=') {
            Some((name, value)) => item.facts.push((name.to_owned(), value.to_owned())),
            None => item
                .words
                .extend(word.split_whitespace().map(str::to_owned)),
        }
    }
    if open {
        return Err("a comma at the end".to_owned());
    }
    if all
        .iter()
        .any(|item| item.words.is_empty() && item.facts.is_empty())
    {
        return Err("an outcome without words".to_owned());
    }
    all[0].message = message;
    Ok(all)
}

fn policy(mut given: Given) -> Result<GatePolicy, String> {
    let usual = GatePolicy::default();
    let count = |given: &mut Given, name: &str| -> Result<Option<u32>, String> {
        let value = given.whole(name)?;
        value
            .map(|value| u32::try_from(value).map_err(|_| format!("`{name}` is too large")))
            .transpose()
    };
    let policy = GatePolicy {
        block_on_error: given.yes("block_on_error")?.unwrap_or(usual.block_on_error),
        block_on_warning: given
            .yes("block_on_warning")?
            .unwrap_or(usual.block_on_warning),
        require_metrics: given
            .yes("require_metrics")?
            .unwrap_or(usual.require_metrics),
        require_build: given.yes("require_build")?.unwrap_or(usual.require_build),
        type_errors_max: count(&mut given, "type_errors_max")?,
        lint_errors_max: count(&mut given, "lint_errors_max")?,
        tests_failing_max: count(&mut given, "tests_failing_max")?,
        coverage_min: given.number("coverage_min")?,
        move_baseline: given.yes("move_baseline")?.unwrap_or(usual.move_baseline),
    };
    given.finish()?;
    Ok(policy)
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let table = [
        (
            "agent A -> registered\nclam A -> T1",
            "x.scene:2: there is no step `clam`",
        ),
        ("agent -> registered", "x.scene:1: which agent? is missing"),
        (
            "# about\n\nagent A colour=red -> registered",
            "x.scene:3: `colour=` means nothing here",
        ),
        ("agent A", "x.scene:1: what is expected"),
        ("agent A -> registered,", "x.scene:1: a comma at the end"),
        (
            "agent A -> registered\npolicy require_metrics=yes",
            "x.scene:2: `policy` must come before",
        ),
        ("at noon", "x.scene:1: `noon` is not a span"),
    ];
    for (text, expected) in table {
        let Err(mistake) = parse("x.scene", text) else {
            panic!("{text} was read");
        };
        assert!(mistake.contains(expected), "{mistake}");
    }
}
