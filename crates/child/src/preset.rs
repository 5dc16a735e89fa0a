//! Agent programs by name: how each is called, told its prompt, resumed and stopped. One table, because their flags change.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stream::Format;
use crate::{Program, StopBy};

/// How a program is called. An argument with placeholders stays one argument, whatever is put in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preset {
    /// `{options}` stands for the options below; `{prompt_file}`, `{dir}`, `{task}` and `{session}` for what they say.
    pub argv: Vec<String>,
    /// Goes on in an earlier session; empty if the program cannot.
    pub resume: Vec<String>,
    pub prompt: PromptBy,
    pub output: Format,
    /// With the program's own permission checks, which is the default.
    pub checked: Vec<String>,
    /// Without them.
    pub yolo: Vec<String>,
    /// Hands it a file of settings with hooks, at `{settings}`.
    pub settings: Vec<String>,
    /// Of our environment, what it cannot do without beside what any program needs; see [`Program::only`].
    pub keys: Vec<String>,
    /// Hands it a file of MCP servers, at `{mcp}`.
    pub mcp: Vec<String>,
    /// The signal that it is told first to end with; SIGTERM and SIGKILL follow.
    pub stop: StopBy,
}

/// How a program learns what to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    #[default]
    Stdin,
    /// By `{prompt_file}`.
    File,
    /// On its input, the task's description and nothing else: the description is the script.
    Description,
}

/// What is put in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    pub prompt_file: Option<&'a Path>,
    pub dir: Option<&'a Path>,
    pub task: &'a str,
    pub session: Option<&'a str>,
    pub is_yolo: bool,
    pub settings: Option<&'a Path>,
    pub mcp: Option<&'a Path>,
}

/// The names of the programs that are known, in the order in which they are shown.
pub const NAMES: [&str; 4] = ["claude", "codex", "gemini", "sh"];

impl Preset {
    pub fn named(name: &str) -> Option<Preset> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        Some(match name {
            "claude" => Preset {
                argv: words("claude -p --verbose --output-format stream-json {options}"),
                resume: words(
                    "claude -p --verbose --output-format stream-json {options} --resume {session}",
                ),
                output: Format::Claude,
                checked: words("--permission-mode acceptEdits"),
                yolo: words("--dangerously-skip-permissions"),
                settings: words("--settings {settings}"),
                mcp: words("--mcp-config {mcp}"),
                keys: words("ANTHROPIC_* CLAUDE_* AWS_*"),
                ..Preset::default()
            },
            "codex" => Preset {
                argv: words("codex exec --json {options} -"),
                resume: words("codex exec --json {options} resume {session} -"),
                output: Format::Codex,
                checked: words("--sandbox workspace-write"),
                yolo: words("--dangerously-bypass-approvals-and-sandbox"),
                keys: words("OPENAI_* CODEX_*"),
                ..Preset::default()
            },
            "gemini" => Preset {
                argv: words("gemini --output-format stream-json {options}"),
                resume: words("gemini --output-format stream-json {options} --resume {session}"),
                output: Format::Gemini,
                checked: words("--approval-mode auto_edit"),
                yolo: words("--approval-mode yolo"),
                keys: words("GEMINI_* GOOGLE_*"),
                ..Preset::default()
            },
            "sh" => Preset {
                argv: words("sh -eu -s"),
                prompt: PromptBy::Description,
                // What a shell runs in the background does not hear of Ctrl-C.
                stop: StopBy::Term,
                ..Preset::default()
            },
            _ => return None,
        })
    }

    /// A command line of a person's own: split as a shell would, nothing expanded. Its prompt comes in the file that it
    /// names, else on its input.
    pub fn exec(line: &str) -> Option<Preset> {
        let argv = shlex::split(line).filter(|words| !words.is_empty())?;
        let names_file = argv.iter().any(|word| word.contains("{prompt_file}"));
        Some(Preset {
            prompt: match names_file {
                true => PromptBy::File,
                false => PromptBy::Stdin,
            },
            argv,
            ..Preset::default()
        })
    }

    /// This one, with the members that settings give.
    pub fn changed(&self, members: Map<String, Value>) -> Result<Preset, String> {
        let mut whole = serde_json::to_value(self).map_err(|error| error.to_string())?;
        if let Value::Object(known) = &mut whole {
            known.extend(members);
        }
        let changed: Preset = serde_json::from_value(whole).map_err(|error| error.to_string())?;
        match changed.argv.is_empty() {
            true => Err("argv names no program".to_owned()),
            false => Ok(changed),
        }
    }

    /// The program to start: in the session if there is one and the program can, else anew.
    pub fn program(&self, given: &Given<'_>) -> Program {
        let argv = match given.session {
            Some(_) if !self.resume.is_empty() => &self.resume,
            Some(_) | None => &self.argv,
        };
        let path = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
        let values = [
            ("{prompt_file}", path(given.prompt_file)),
            ("{dir}", path(given.dir)),
            ("{task}", Some(given.task.to_owned())),
            ("{session}", given.session.map(str::to_owned)),
            ("{settings}", path(given.settings)),
            ("{mcp}", path(given.mcp)),
        ];
        let fill = |word: &String| fill(word, &values);
        let options = || {
            let rights = match given.is_yolo {
                true => &self.yolo,
                false => &self.checked,
            };
            let settings = given.settings.map(|_| &self.settings);
            let mcp = given.mcp.map(|_| &self.mcp);
            let all = [Some(rights), settings, mcp]
                .into_iter()
                .flatten()
                .flatten();
            all.map(&fill).collect::<Vec<_>>()
        };
        let words = argv.iter().flat_map(|word| match word.as_str() {
            "{options}" => options(),
            _ => vec![fill(word)],
        });
        Program {
            stop: self.stop,
            ..Program::new(words)
        }
    }
}

/// Each placeholder once, from left to right: what was put in is not looked at again.
fn fill(word: &str, values: &[(&str, Option<String>)]) -> String {
    let mut filled = String::new();
    let mut rest = word;
    'next: while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        for (name, value) in values {
            if let (Some(after), Some(value)) = (rest.strip_prefix(name), value) {
                filled.push_str(value);
                rest = after;
                continue 'next;
            }
        }
        filled.push('{');
        rest = &rest[1..];
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(program: &Program) -> Vec<&str> {
        let argv = program.argv.iter();
        argv.map(|word| word.to_str().expect("text")).collect()
    }

    #[test]
    fn each_program_is_called_with_its_checks_unless_told_otherwise() {
        let table = [
            (
                "claude",
                "claude -p --verbose --output-format stream-json --permission-mode acceptEdits",
                "claude -p --verbose --output-format stream-json --dangerously-skip-permissions --resume s1",
            ),
            (
                "codex",
                "codex exec --json --sandbox workspace-write -",
                "codex exec --json --dangerously-bypass-approvals-and-sandbox resume s1 -",
            ),
            (
                "gemini",
                "gemini --output-format stream-json --approval-mode auto_edit",
                "gemini --output-format stream-json --approval-mode yolo --resume s1",
            ),
            ("sh", "sh -eu -s", "sh -eu -s"),
        ];
        assert_eq!(table.map(|row| row.0), NAMES);
        for (name, first, resumed) in table {
            let preset = Preset::named(name).expect("it is known");
            let checked = preset.program(&Given::default());
            assert_eq!(words(&checked).join(" "), first);
            let again = Given {
                session: Some("s1"),
                is_yolo: true,
                ..Given::default()
            };
            assert_eq!(words(&preset.program(&again)).join(" "), resumed);
        }
        assert_eq!(Preset::named("other"), None);
    }

    #[test]
    fn hooks_and_servers_are_handed_over_where_they_are_given() {
        let given = Given {
            settings: Some(Path::new("/a b/hooks.json")),
            mcp: Some(Path::new("/m.json")),
            ..Given::default()
        };
        let program = Preset::named("claude").expect("known").program(&given);
        let words = words(&program);
        let tail = ["--settings", "/a b/hooks.json", "--mcp-config", "/m.json"];
        assert!(words.ends_with(&tail), "{words:?}");
    }

    #[test]
    fn a_command_line_is_split_and_nothing_in_it_is_expanded() {
        let preset =
            Preset::exec("agent 'two words' --file={prompt_file} $HOME '{task}'").expect("words");
        assert_eq!(preset.prompt, PromptBy::File);
        let given = Given {
            prompt_file: Some(Path::new("/x/{task} y")),
            task: "$(rm -rf /) {dir}",
            dir: Some(Path::new("/d")),
            ..Given::default()
        };
        let program = preset.program(&given);
        let expected = [
            "agent",
            "two words",
            "--file=/x/{task} y",
            "$HOME",
            "$(rm -rf /) {dir}",
        ];
        assert_eq!(words(&program), expected);
        assert_eq!(
            Preset::exec("agent {").map(|preset| preset.prompt),
            Some(PromptBy::Stdin)
        );
        assert_eq!(Preset::exec("agent '"), None);
        assert_eq!(Preset::exec(" "), None);
    }

    #[test]
    fn settings_change_what_they_name_and_nothing_else() {
        let claude = Preset::named("claude").expect("known");
        let members = json!({ "yolo": ["--trust"] });
        let changed = claude.changed(members.as_object().expect("it is").clone());
        let expected = Preset {
            yolo: vec!["--trust".to_owned()],
            ..claude.clone()
        };
        assert_eq!(changed, Ok(expected));
        let stopped = claude.changed(json!({ "stop": "hup" }).as_object().expect("it is").clone());
        let stopped = stopped.expect("it is a signal").program(&Given::default());
        assert_eq!(stopped.stop, StopBy::Hup);
        for (members, word) in [
            (json!({ "argv": [] }), "names no program"),
            (json!({ "stop": "kill" }), "unknown variant `kill`"),
            (json!({ "args": ["x"] }), "unknown field `args`"),
            (json!({ "output": "xml" }), "unknown variant `xml`"),
        ] {
            let error = claude.changed(members.as_object().expect("it is").clone());
            let error = error.expect_err("it is wrong");
            assert!(error.contains(word), "{error}");
        }
    }
}
