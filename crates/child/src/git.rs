//! Git, called as a program: it never asks anybody, never signs, and looks at no repository but the one it is called in.
//!
//! For whoever has worktrees made and committed in; what is made of an answer is theirs.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// Even a large checkout takes no longer.
const WITHIN: Duration = Duration::from_secs(600);
/// Of what git complains about, so much is told.
const COMPLAINT_CHARS_MAX: usize = 2000;

/// A disk that has no room for so much is full.
const ROOM_BYTES: usize = 1024 * 1024;

/// What would lead git elsewhere, as in a hook that started us.
const NOT_INHERITED: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
];

/// What git did.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Runs git in `dir` and takes whatever it answers.
pub async fn try_git<S: AsRef<OsStr>>(
    dir: &Path,
    args: &[S],
    env: &[(&str, &str)],
    input: &[u8],
) -> Result<Done, String> {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "commit.gpgSign=false",
        "-c",
        "gc.auto=0",
        "-c",
        "advice.detachedHead=false",
    ]);
    command.args(args).current_dir(dir);
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    let quiet = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "true"),
        ("SSH_ASKPASS", "true"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        ("GIT_EDITOR", "true"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("LC_ALL", "C"),
    ];
    command.envs(quiet).envs(env.iter().copied());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    let given = child.stdin.take();
    let feed = async {
        if let Some(mut given) = given {
            // Git may have ended before it read all of it.
            let _ = given.write_all(input).await;
        }
    };
    let both = async { tokio::join!(feed, child.wait_with_output()).1 };
    let output = timeout(WITHIN, both)
        .await
        .map_err(|_| format!("git {} took longer than {WITHIN:?}", first(args)))?
        .map_err(|error| format!("git cannot be run: {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    Ok(Done {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: stderr.trim().chars().take(COMPLAINT_CHARS_MAX).collect(),
    })
}

/// Runs git in `dir`; what it printed, if it succeeded.
pub async fn git<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Result<Vec<u8>, String> {
    let done = try_git(dir, args, &[], b"").await?;
    match done.code {
        Some(0) => Ok(done.stdout),
        _ => Err(format!("git {} failed: {}", first(args), done.stderr)),
    }
}

/// As [`git`], for an answer that is one line of text.
pub async fn line<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Result<String, String> {
    let bytes = git(dir, args).await?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// The same, where git may have nothing to say.
pub async fn maybe<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Result<Option<String>, String> {
    let done = try_git(dir, args, &[], b"").await?;
    let text = String::from_utf8_lossy(&done.stdout).trim_end().to_owned();
    Ok((done.code == Some(0) && !text.is_empty()).then_some(text))
}

/// What git complained of, and that there is no more space where it wrote if so: it does not always tell.
pub fn why(dir: &Path, complaint: String) -> String {
    let probe = dir.join("room");
    let tried = std::fs::write(&probe, vec![0; ROOM_BYTES]);
    // It may never have been there.
    let _ = std::fs::remove_file(&probe);
    match tried {
        Err(error) if !is_full(&complaint) => format!("{complaint}: {error}"),
        Ok(()) | Err(_) => complaint,
    }
}

/// Whether there is no more space, by what the system says of it here or in git.
pub fn is_full(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"]
        .iter()
        .any(|words| text.contains(words))
}

/// Paths that git separated by zero bytes.
pub fn paths(printed: &[u8]) -> impl Iterator<Item = OsString> {
    use std::os::unix::ffi::OsStrExt as _;
    let parts = printed
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty());
    parts.map(|part| OsStr::from_bytes(part).to_owned())
}

/// In the environment of a commit where nobody told git who commits.
pub async fn identity(
    dir: &Path,
    name: &str,
    env: &[(&str, &str)],
) -> Result<Vec<(&'static str, String)>, String> {
    let done = try_git(dir, &["config", "user.email"], env, b"").await?;
    if done.code == Some(0) || std::env::var_os("GIT_AUTHOR_EMAIL").is_some() {
        return Ok(Vec::new());
    }
    let email = format!("{name}@switchboard.invalid");
    Ok(vec![
        ("GIT_AUTHOR_NAME", name.to_owned()),
        ("GIT_AUTHOR_EMAIL", email.clone()),
        ("GIT_COMMITTER_NAME", name.to_owned()),
        ("GIT_COMMITTER_EMAIL", email),
    ])
}

fn first<S: AsRef<OsStr>>(args: &[S]) -> String {
    let word = args
        .first()
        .map(|word| word.as_ref().to_string_lossy().into_owned());
    word.unwrap_or_default()
}
