//! Skills on this machine: `<skills_dir>/<name>/skill.json` says which version is there, and how to try it.
//!
//! A skill's `path` is never opened, and nothing is looked up outside of the directory.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use switchboard_child::{Program, end};
use switchboard_core::capability::{GateResult, Manifest, PublishGate, SkillRef};
use switchboard_core::limits;
use switchboard_wire::runtime::capability_from_wire::SCHEMA;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::judge;

/// Where skills and schemas are.
pub struct Skills {
    pub dir: PathBuf,
}

/// What stands in `skill.json`.
#[derive(Debug, Deserialize)]
struct Skill {
    name: String,
    version: String,
    /// A command line, or a program and its arguments: exit code 0 if it works.
    #[serde(default)]
    smoke: Option<Command>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Command {
    Line(String),
    Words(Vec<String>),
}

/// The largest `skill.json`.
const SKILL_FILE_BYTES_MAX: u64 = 64 * 1024;
/// As much of what a command printed is told.
const PRINTED_MAX: usize = 2048;

impl Skills {
    /// The gates between the owner and the index, up to the first one that does not let it pass.
    pub async fn gates(&self, manifest: &mut Manifest) -> Vec<GateResult> {
        let mut said = Vec::new();
        let executor = match self.resolve(&manifest.executor) {
            Ok(skill) => {
                let note = format!("{} {}", skill.name, skill.version);
                said.push(GateResult::passed(PublishGate::Install, note));
                skill
            }
            Err(why) => return vec![GateResult::failed(PublishGate::Install, why)],
        };
        match self.contract(manifest) {
            Ok(Some(schema)) => {
                manifest.contract_schema = Some(schema);
                let note = "results are checked against its schema";
                said.push(GateResult::passed(PublishGate::Wire, note));
            }
            Ok(None) => {
                let note = "there is no schema: results are not checked";
                said.push(GateResult::skipped(PublishGate::Wire, note));
            }
            Err(why) => {
                said.push(GateResult::failed(PublishGate::Wire, why));
                return said;
            }
        }
        let delegation = self.resolve(&manifest.delegation).ok();
        for (gate, skill) in [
            (PublishGate::Smoke, Some(executor)),
            (PublishGate::Rollout, delegation),
        ] {
            let result = self.try_out(gate, skill).await;
            let is_over = result.outcome == switchboard_core::capability::GateOutcome::Failed;
            said.push(result);
            if is_over {
                break;
            }
        }
        said
    }

    fn resolve(&self, wanted: &SkillRef) -> Result<Skill, String> {
        let place = self.dir.join(&wanted.name).join("skill.json");
        let shown = place.display();
        let text = read(&place, SKILL_FILE_BYTES_MAX)
            .map_err(|error| format!("skill {} does not resolve: {shown}: {error}", wanted.name))?;
        let skill: Skill =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        if skill.name == wanted.name && skill.version == wanted.version {
            return Ok(skill);
        }
        let (name, version) = (&skill.name, &skill.version);
        Err(format!(
            "{shown} is {name} {version}, not {} {}",
            wanted.name, wanted.version
        ))
    }

    /// The schema that results are checked against: the manifest's own, or the one that its reference names here.
    fn contract(&self, manifest: &Manifest) -> Result<Option<Box<str>>, String> {
        let schema = match (&manifest.contract_schema, &manifest.contract_ref) {
            (Some(own), _) => own.clone(),
            (None, None) => return Ok(None),
            (None, Some(reference)) => {
                let place = self.schema(reference)?;
                let most = limits::CONTRACT_SCHEMA_BYTES_MAX as u64;
                let read = read(&place, most);
                let read = read.map_err(|error| format!("{}: {error}", place.display()))?;
                read.into()
            }
        };
        judge::check_schema(&schema)?;
        Ok(Some(schema))
    }

    fn schema(&self, reference: &str) -> Result<PathBuf, String> {
        let path = reference.strip_prefix(SCHEMA).unwrap_or_default();
        let fits = |part: &str| {
            let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(letters)
        };
        if !path.split('/').all(fits) {
            return Err(format!(
                "{reference} names no schema: between slashes it must have letters, digits, '.', '_' and '-'"
            ));
        }
        Ok(self.dir.join("schemas").join(format!("{path}.json")))
    }

    async fn try_out(&self, gate: PublishGate, skill: Option<Skill>) -> GateResult {
        let Some(skill) = skill else {
            return GateResult::skipped(gate, "the skill is not on this machine");
        };
        let program = match skill.smoke {
            None => return GateResult::skipped(gate, "skill.json has no smoke command"),
            Some(Command::Line(line)) => Program::parse(&line),
            Some(Command::Words(words)) => Some(words)
                .filter(|words| !words.is_empty())
                .map(Program::new),
        };
        let Some(mut program) = program else {
            return GateResult::failed(gate, "the smoke command of skill.json is none");
        };
        program.dir = Some(self.dir.join(&skill.name));
        match run(&program).await {
            Ok(None) => GateResult::passed(gate, ""),
            Ok(Some(why)) => GateResult::failed(gate, why),
            Err(error) => GateResult::failed(gate, format!("it does not start: {error}")),
        }
    }
}

fn read(place: &Path, most: u64) -> io::Result<String> {
    let found = std::fs::metadata(place)?;
    if found.len() > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    std::fs::read_to_string(place)
}

/// Why it does not work, if so.
async fn run(program: &Program) -> io::Result<Option<String>> {
    let (mut child, group) = program.in_group()?;
    drop(child.stdin.take());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let printed = async {
        // Both are read to the end, so that nobody waits for a full pipe; little of it is kept.
        let (mut kept, mut rest) = (Vec::new(), tokio::io::sink());
        if let Some(out) = out {
            drop(tokio::spawn(async move {
                let mut out = out;
                drop(tokio::io::copy(&mut out, &mut tokio::io::sink()).await);
            }));
        }
        if let Some(mut err) = err {
            let mut first = (&mut err).take(PRINTED_MAX as u64);
            drop(first.read_to_end(&mut kept).await);
            drop(tokio::io::copy(&mut err, &mut rest).await);
        }
        kept
    };
    let ended = timeout(limits::SMOKE_WITHIN, async {
        tokio::join!(child.wait(), printed)
    });
    let Ok((status, printed)) = ended.await else {
        end(&mut child, &group).await?;
        let seconds = limits::SMOKE_WITHIN.as_secs();
        return Ok(Some(format!("it did not end within {seconds} s")));
    };
    let status = status?;
    group.bury();
    if status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&printed);
    Ok(Some(format!("{status}: {}", said.trim())))
}
