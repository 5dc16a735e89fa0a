//! `[logist]`: where jobs lie, who works on them, and how long they are waited for.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use switchboard_child::{Preset, Program};

use super::read::{Given, read};
use super::settings::{Draft, Entry, count};
use super::worker::table;

/// The variable that has the key of prompts.
pub const LOGIST_KEY: &str = "SWITCHBOARD_LOGIST_KEY";
/// The variable that names the jobs' directory where no setting does, as for the program that this one stands in for.
pub const LOGIST_JOBS_DIR: &str = "LOGIST_JOBS_DIR";
/// Below the data directory, unless the settings name another.
const JOBS_DIR: &str = "jobs";

#[derive(Clone, Debug, PartialEq)]
pub struct Logist {
    /// New jobs lie below it, unless they are told where to.
    pub dir: PathBuf,
    /// What was asked for, relative to the project.
    pub dir_name: Option<PathBuf>,
    /// Agents that run at a time; with none, jobs rest.
    pub runs: u32,
    /// By the name of a role, in lower case.
    pub agents: BTreeMap<String, Agent>,
    /// Before the first retry of a call that failed; twice as long before each further one.
    pub api_wait: Duration,
    pub quota_wait: Duration,
    /// A worker that prints nothing for so long hangs.
    pub worker_quiet: Duration,
    pub supervisor_quiet: Duration,
    /// A history file that is larger is rotated.
    pub history_bytes_max: u32,
    pub key: PromptKey,
}

/// The program of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// A command line, which is split as a shell would and not expanded.
    pub command: Option<String>,
    /// `claude`, `codex`, `gemini` or `mock`.
    pub preset: Option<String>,
    /// Behind the preset's own arguments.
    pub args: Vec<String>,
    /// Without the program's own permission checks.
    pub yolo: bool,
    /// Further variables of the hub's environment that it may see.
    pub env: Vec<String>,
    /// A single run may last so long. Else what is left of the job's time.
    pub seconds_max: Option<u64>,
}

/// Where the key of sensitive prompts comes from. It is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PromptKey {
    pub file: Option<PathBuf>,
    pub text: Option<String>,
}

impl fmt::Debug for PromptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptKey({:?}, …)", self.file)
    }
}

impl Logist {
    pub(super) fn below(data_dir: &Path) -> Self {
        Logist {
            dir: data_dir.join(JOBS_DIR),
            dir_name: None,
            runs: 4,
            agents: BTreeMap::new(),
            api_wait: Duration::from_secs(1),
            quota_wait: Duration::from_secs(30),
            worker_quiet: Duration::from_secs(30 * 60),
            supervisor_quiet: Duration::from_secs(15 * 60),
            history_bytes_max: 100 * 1024 * 1024,
            key: PromptKey::default(),
        }
    }

    pub(crate) fn resolve(&mut self, project: &Path, data_dir: &Path) {
        self.dir = match &self.dir_name {
            Some(name) => project.join(name),
            None => data_dir.join(JOBS_DIR),
        };
        if let Some(file) = &mut self.key.file {
            *file = project.join(&*file);
        }
    }
}

impl Agent {
    /// Whether it names one program that is known.
    fn check(&self) -> Result<(), String> {
        match (&self.command, &self.preset) {
            (Some(line), None) if Program::parse(line).is_some() => Ok(()),
            (Some(line), None) => Err(format!("command is no program and its arguments: {line:?}")),
            (None, Some(name)) if name == MOCK || Preset::named(name).is_some() => Ok(()),
            (None, Some(name)) => Err(format!(
                "preset {name:?} is not known; expected claude, codex, gemini or {MOCK}"
            )),
            (Some(_), Some(_)) | (None, None) => {
                Err("expected either command or preset".to_owned())
            }
        }
    }
}

/// The preset that is this program itself.
pub const MOCK: &str = "mock";

#[rustfmt::skip]
pub const LOGIST_SETTINGS: &[Entry] = &[
    ("logist.dir", |d, g| read(g).map(|v| logist(d).dir_name = Some(v))),
    ("logist.runs", |d, g| read(g).map(|v| logist(d).runs = v)),
    ("logist.agents", |d, g| agents(g).map(|v| logist(d).agents = v)),
    ("logist.api_wait_seconds", |d, g| seconds(g).map(|v| logist(d).api_wait = v)),
    ("logist.quota_wait_seconds", |d, g| seconds(g).map(|v| logist(d).quota_wait = v)),
    ("logist.worker_quiet_seconds", |d, g| seconds(g).map(|v| logist(d).worker_quiet = v)),
    ("logist.supervisor_quiet_seconds", |d, g| seconds(g).map(|v| logist(d).supervisor_quiet = v)),
    ("logist.history_kilobytes_max", |d, g| count(g).map(|v| logist(d).history_bytes_max = v.saturating_mul(1024))),
    ("logist.key_file", |d, g| read(g).map(|v| logist(d).key.file = Some(v))),
];

fn logist(draft: &mut Draft) -> &mut Logist {
    &mut draft.config.logist
}

fn seconds(given: &Given) -> Result<Duration, String> {
    count(given).map(|count| Duration::from_secs(count.into()))
}

fn agents(given: &Given) -> Result<BTreeMap<String, Agent>, String> {
    let wanted = "sections [logist.agents.<role>]";
    let agents: BTreeMap<String, Agent> = table(given, wanted)?;
    for (role, agent) in &agents {
        let checked = agent.check();
        checked.map_err(|why| format!("[logist.agents.{role}]: {why}"))?;
    }
    let lower = |(role, agent): (String, Agent)| (role.to_lowercase(), agent);
    Ok(agents.into_iter().map(lower).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Given {
        Given::Toml(toml::Value::Table(text.parse().expect("it is TOML")))
    }

    #[test]
    fn an_agent_is_a_command_or_a_preset_that_is_known() {
        let fine =
            "[Worker]\npreset = 'claude'\nyolo = true\n[supervisor]\ncommand = \"review 'a b'\"";
        let agents = agents(&given(fine)).expect("they are agents");
        assert_eq!(agents.keys().collect::<Vec<_>>(), ["supervisor", "worker"]);
        for (text, part) in [
            ("[worker]", "either command or preset"),
            (
                "[worker]\ncommand = 'x'\npreset = 'mock'",
                "either command or preset",
            ),
            (
                "[worker]\npreset = 'other'",
                "expected claude, codex, gemini or mock",
            ),
            ("[worker]\ncommand = \"'\"", "no program"),
            ("[worker]\nprogram = 'x'", "unknown field"),
            ("worker = 7", "expected sections"),
        ] {
            let error = super::agents(&given(text)).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
