//! The `git` program, asked a few questions that change nothing.
//!
//! No shell, no hooks, no network: plumbing commands only, commits by their full names, within a time and a size.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

const COMMAND_WITHIN: Duration = Duration::from_secs(10);
/// More than any of these answers is long.
const OUTPUT_BYTES_MAX: u64 = 4096;
/// Counting ends here. More than any policy can ask for.
const COUNTED_MAX: u32 = 1_000_001;
/// What git says when it fails is shown up to this many characters.
const SAID_MAX: usize = 200;

/// The full name of a commit: 40 or 64 hexadecimal digits, lower-case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sha(String);

impl Sha {
    pub fn parse(text: &str) -> Option<Sha> {
        let whole = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
        whole.then(|| Sha(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("git cannot be run: {0}")]
    Start(#[source] std::io::Error),
    #[error("git did not answer within {} seconds", .0.as_secs())]
    Slow(Duration),
    #[error("there is no git repository")]
    NoRepository,
    #[error("git refuses: {said}")]
    Refused { said: String },
    #[error("{} has no branch {branch}", repository.display())]
    NoBranch { repository: PathBuf, branch: String },
    #[error("git's output cannot be parsed")]
    Senseless,
}

/// Takes itself by `&mut`, so that there is never more than one command at a time.
pub struct Git {
    repository: PathBuf,
    within: Duration,
}

struct Said {
    /// None if it was ended by a signal.
    code: Option<i32>,
    out: String,
    err: String,
}

impl Git {
    pub fn new(repository: PathBuf) -> Git {
        Git {
            repository,
            within: COMMAND_WITHIN,
        }
    }

    /// The head of a branch of this repository, or of a branch that was fetched, such as `origin/main`.
    pub async fn branch(&mut self, branch: &str) -> Result<Sha, Failed> {
        for kind in ["heads", "remotes"] {
            let name = format!("refs/{kind}/{branch}^{{commit}}");
            if let Some(sha) = self.verify(&name).await? {
                return Ok(sha);
            }
        }
        Err(Failed::NoBranch {
            repository: self.repository.clone(),
            branch: branch.to_owned(),
        })
    }

    /// Whether the repository has this commit.
    pub async fn knows(&mut self, sha: &Sha) -> Result<bool, Failed> {
        let found = self.verify(&format!("{}^{{commit}}", sha.as_str())).await?;
        Ok(found.is_some())
    }

    /// How many commits of `of` are not in the history of `sha`.
    pub async fn count_missing(&mut self, sha: &Sha, of: &Sha) -> Result<u32, Failed> {
        let range = format!("{}..{}", sha.as_str(), of.as_str());
        let most = format!("--max-count={COUNTED_MAX}");
        let said = self
            .run(&["rev-list", "--count", &most, &range, "--"])
            .await?;
        said.expect_success()?
            .trim()
            .parse()
            .map_err(|_| Failed::Senseless)
    }

    /// The best commit that both have in their histories.
    pub async fn merge_base(&mut self, one: &Sha, other: &Sha) -> Result<Option<Sha>, Failed> {
        let said = self
            .run(&["merge-base", "--", one.as_str(), other.as_str()])
            .await?;
        said.sha_unless_none()
    }

    /// The committer's time of a commit, in seconds since 1970.
    pub async fn committed_at(&mut self, sha: &Sha) -> Result<i64, Failed> {
        let said = self
            .run(&["rev-list", "--no-walk", "--timestamp", sha.as_str(), "--"])
            .await?;
        let out = said.expect_success()?;
        let time = out.split_whitespace().next().ok_or(Failed::Senseless)?;
        time.parse().map_err(|_| Failed::Senseless)
    }

    /// Whether everything in the worktree is committed.
    pub async fn is_clean(&mut self) -> Result<bool, Failed> {
        let said = self.run(&["status", "--porcelain"]).await?;
        match said.out.is_empty() {
            true => said.expect_success().map(|_| true),
            false => Ok(false),
        }
    }

    async fn verify(&mut self, name: &str) -> Result<Option<Sha>, Failed> {
        let said = self
            .run(&["rev-parse", "--quiet", "--verify", "--end-of-options", name])
            .await?;
        said.sha_unless_none()
    }

    async fn run(&mut self, args: &[&str]) -> Result<Said, Failed> {
        let mut command = Command::new("git");
        for name in hidden(std::env::vars_os().map(|(name, _)| name)) {
            command.env_remove(name);
        }
        command
            // Objects that are missing are not fetched, nothing is locked, nobody is asked for a password.
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .arg("-C")
            .arg(&self.repository)
            .args([
                "--no-pager",
                "--no-replace-objects",
                "-c",
                "core.fsmonitor=false",
            ])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(Failed::Start)?;
        let out = child.stdout.take().expect("it is piped");
        let err = child.stderr.take().expect("it is piped");
        let all = async { tokio::try_join!(start_of(out), start_of(err), child.wait()) };
        let (out, err, status) = timeout(self.within, all)
            .await
            .map_err(|_| Failed::Slow(self.within))?
            .map_err(Failed::Start)?;
        Ok(Said {
            code: status.code(),
            out,
            err,
        })
    }
}

/// What is longer is cut; git is told so by a broken pipe.
async fn start_of(pipe: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Variables that would point git somewhere else, whoever set them.
fn hidden(names: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let ours = |name: &OsStr| name.as_encoded_bytes().starts_with(b"GIT_");
    names.filter(|name| ours(name)).collect()
}

impl Said {
    fn expect_success(self) -> Result<String, Failed> {
        match self.code {
            Some(0) => Ok(self.out),
            _ => Err(self.refusal()),
        }
    }

    /// Both commands that name a commit end with 1 if there is none.
    fn sha_unless_none(self) -> Result<Option<Sha>, Failed> {
        if self.code == Some(1) {
            return Ok(None);
        }
        let out = self.expect_success()?;
        let first = out.lines().next().unwrap_or_default();
        Sha::parse(first.trim()).map(Some).ok_or(Failed::Senseless)
    }

    fn refusal(self) -> Failed {
        let line = self.err.lines().next().unwrap_or("no reason given");
        if line.contains("not a git repository") {
            return Failed::NoRepository;
        }
        let said = line.chars().filter(|c| !c.is_control());
        Failed::Refused {
            said: said.take(SAID_MAX).collect(),
        }
    }
}

#[cfg(test)]
impl Git {
    /// The same with less patience.
    pub fn within(self, within: Duration) -> Git {
        Git { within, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_full_name_of_a_commit_reaches_a_command_line() {
        let full = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(Sha::parse(full).unwrap().as_str(), full);
        let upper = full.to_uppercase();
        assert_eq!(Sha::parse(&upper).unwrap().as_str(), full);
        assert!(Sha::parse(&"a".repeat(64)).is_some());
        let long = "a".repeat(41);
        for text in [
            "",
            "main",
            "HEAD",
            &full[..39],
            &long,
            "--upload-pack=touch x; 0123456789abcdef01",
            "0123456789abcdef0123456789abcdef0123456g",
            "0123456789abcdef0123456789abcdef0123456\n",
            "ä".repeat(20).as_str(),
        ] {
            assert_eq!(Sha::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn variables_of_git_are_hidden_from_it_and_others_are_not() {
        let names = [
            "GIT_DIR",
            "PATH",
            "GIT_CONFIG_COUNT",
            "HOME",
            "GITHUB_TOKEN",
        ];
        let found = hidden(names.iter().map(OsString::from));
        assert_eq!(found, ["GIT_DIR", "GIT_CONFIG_COUNT"]);
    }
}
