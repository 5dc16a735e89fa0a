//! With real programs.

use tokio::time::timeout;

use std::os::unix::process::ExitStatusExt as _;

use super::*;
use crate::typing::{PasteMode, Typed, keys, may_type_at};

const LONG: Duration = Duration::from_secs(60);
const SIZE: Size = Size {
    rows: 24,
    columns: 80,
};

fn sh(script: &str) -> Program {
    Program::new(["sh", "-c", script])
}

/// Reads until the text was printed.
async fn until(output: &mut Output, text: &str) -> String {
    let mut seen = String::new();
    let reading = async {
        while !seen.contains(text) {
            let piece = output.recv().await;
            let piece = piece.unwrap_or_else(|| panic!("it ended after {seen:?}"));
            seen.push_str(&String::from_utf8_lossy(&piece));
        }
    };
    timeout(LONG, reading).await.expect("it prints it");
    seen
}

async fn gone(run_id: &str) {
    let buried = async {
        while !orphans::carriers(&[run_id]).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, buried).await.expect("they are gone");
}

fn run_id(name: &str) -> String {
    format!("test-{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_program_finds_terminal_size_directory_and_environment() {
    let dir = std::env::temp_dir();
    let program = Program {
        dir: Some(dir.clone()),
        ..sh("test -t 0 && stty size; pwd; echo $GIVEN; read x; stty size; exit 7")
            .env("GIVEN", "yes")
    };
    let (pty, mut output) = program.in_terminal(SIZE).expect("it starts");
    let seen = until(&mut output, "yes").await;
    assert!(seen.contains("24 80"), "{seen:?}");
    let dir = dir.canonicalize().expect("it is there");
    assert!(seen.contains(&*dir.to_string_lossy()), "{seen:?}");
    pty.resize(Size {
        rows: 50,
        columns: 132,
    })
    .expect("it is open");
    pty.type_in("go", false).await.expect("it reads");
    until(&mut output, "50 132").await;
    let status = timeout(LONG, pty.wait()).await.expect("it ends");
    assert_eq!(status.code(), Some(7));
    assert_eq!(pty.pid(), None);
    pty.write(vec![b'x'; 10]).await.ok();
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    assert!(
        Program::new(["no-such-program-anywhere"])
            .in_terminal(SIZE)
            .is_err()
    );
    assert!(Program::default().in_terminal(SIZE).is_err());
    assert!(Program::default().in_group().is_err());
    let elsewhere = Program {
        dir: Some("/no/such/place".into()),
        ..sh("true")
    };
    assert!(elsewhere.in_terminal(SIZE).is_err());
    for line in ["", "  ", "'open"] {
        assert!(Program::parse(line).is_none(), "{line:?}");
    }
    let words = Program::parse("claude --say 'two words'").expect("it has words");
    assert_eq!(words.argv, ["claude", "--say", "two words"]);
}

#[tokio::test]
async fn who_does_not_listen_is_killed_after_the_grace() {
    let (pty, mut output) = sh("trap '' HUP TERM; echo deaf; while :; do sleep 1; done")
        .in_terminal(SIZE)
        .expect("it starts");
    until(&mut output, "deaf").await;
    let status = timeout(LONG, pty.end(Duration::from_millis(50)))
        .await
        .expect("it ends");
    assert_eq!(status.signal(), Some(9));
    let (pty, mut output) = sh("echo there; sleep 600")
        .in_terminal(SIZE)
        .expect("it starts");
    until(&mut output, "there").await;
    let status = timeout(LONG, pty.end(LONG)).await.expect("it listens");
    assert_eq!(status.signal(), Some(1));
}

#[tokio::test]
async fn a_dropped_terminal_ends_what_runs_in_it() {
    let id = run_id("dropped");
    let (pty, mut output) = sh("sleep 600 & echo up; wait")
        .env(RUN_ID, &id)
        .in_terminal(SIZE)
        .expect("it starts");
    until(&mut output, "up").await;
    assert!(!orphans::carriers(&[&id]).is_empty());
    drop(pty);
    gone(&id).await;
}

#[tokio::test]
async fn orphans_are_found_by_their_run_id_and_ended() {
    let id = run_id("orphans");
    // One in a session of its own, which no signal to a group reaches, and one that does not listen.
    let program =
        sh("setsid sleep 600 & (trap '' TERM HUP; while :; do sleep 1; done) & echo up; wait");
    let (pty, mut output) = program
        .env(RUN_ID, &id)
        .in_terminal(SIZE)
        .expect("it starts");
    until(&mut output, "up").await;
    let (ended, left) = orphans::end(&[&id], Duration::from_millis(100)).await;
    assert!(ended >= 3, "{ended}");
    assert_eq!(left, 0);
    assert_eq!(orphans::end(&[&id], LONG).await, (0, 0));
    assert!(orphans::carriers(&[]).is_empty());
    timeout(LONG, pty.wait()).await.expect("it was ended too");
}

#[test]
fn control_characters_are_not_typed() {
    assert_eq!(
        keys("a\x1b[31mb\u{9b}c\x03\r\nd\te\n", false),
        b"a[31mbc\nd e"
    );
    assert_eq!(
        keys("a\x1b[201~\nb\tc", true),
        b"\x1b[200~a[201~\rb\tc\x1b[201~"
    );
}

#[test]
fn bracketed_paste_is_noticed_however_it_is_cut() {
    let mut mode = PasteMode::default();
    for (printed, is_on) in [
        ("hello\x1b[?1h", false),
        ("\x1b[?20", false),
        ("04h$ ", true),
        ("\x1b[2004l\x1b[?12004l", true),
        ("\x1b[?1;2004l", false),
        ("\x1b[?2004;25h", true),
        ("\x1bc", false),
    ] {
        mode.watch(printed.as_bytes());
        assert_eq!(mode.is_on(), is_on, "{printed:?}");
    }
}

#[test]
fn a_person_who_types_is_waited_for_but_not_for_ever() {
    let now = tokio::time::Instant::now();
    let after = |seconds| now + Duration::from_secs(seconds);
    assert_eq!(may_type_at(now, None), now);
    assert_eq!(may_type_at(after(10), Some(now)), after(10));
    assert_eq!(may_type_at(now, Some(after(1))), after(3));
    assert_eq!(may_type_at(now, Some(after(29))), after(30));
}

#[test]
fn an_id_is_new_once_among_the_last_ones() {
    let mut typed = Typed::default();
    assert!(typed.is_new("m0") && !typed.is_new("m0"));
    for number in 1..4096 {
        assert!(typed.is_new(&format!("m{number}")));
    }
    assert!(!typed.is_new("m0"));
    assert!(typed.is_new("m4096") && typed.is_new("m0"));
}

/// Runs it, with what it printed.
async fn to_end(run: Run, stop: impl Future<Output = ()>) -> (Ended, Vec<u8>, usize) {
    let (pieces, mut printed) = tokio::sync::mpsc::channel::<Piece>(4);
    let reading = async move {
        let (mut seen, mut count) = (Vec::new(), 0);
        while let Some(piece) = printed.recv().await {
            count += piece.bytes.len();
            seen.extend(piece.bytes);
            seen.truncate(1024);
        }
        (seen, count)
    };
    let (ended, (seen, count)) = tokio::join!(run.to_end(pieces, stop), reading);
    (ended.expect("it starts"), seen, count)
}

fn run(script: &str, id: &str) -> Run {
    Run {
        program: sh(script).env(RUN_ID, id),
        ..Run::default()
    }
}

#[tokio::test]
async fn a_program_reads_its_input_and_all_that_it_prints_is_read() {
    let id = run_id("fed");
    let fed = Run {
        input: b"hello".to_vec(),
        ..run(
            "cat; echo; head -c 100000000 /dev/zero; echo wrong >&2; exit 3",
            &id,
        )
    };
    let (ended, seen, count) = to_end(fed, std::future::pending()).await;
    assert_eq!((ended.status.code(), ended.cause), (Some(3), Cause::Itself));
    assert_eq!(count, 100_000_000 + "hello\nwrong\n".len());
    assert!(seen.starts_with(b"hello\n"));
}

#[tokio::test]
async fn what_a_program_started_ends_with_it() {
    let id = run_id("forks");
    let (ended, _, _) = to_end(
        run("sleep 600 & (sleep 600 &) ; exit 0", &id),
        std::future::pending(),
    )
    .await;
    assert!(ended.status.success());
    gone(&id).await;
}

#[tokio::test]
async fn a_program_is_ended_with_its_group_when_its_time_is_over_or_it_is_told_to() {
    for is_told in [false, true] {
        let id = run_id(if is_told { "told" } else { "overtime" });
        let hanging = Run {
            time_max: (!is_told).then_some(Duration::from_millis(200)),
            ..run("sleep 600 & wait", &id)
        };
        let stop = async {
            if !is_told {
                std::future::pending::<()>().await;
            }
            while orphans::carriers(&[&id]).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let (ended, _, _) = to_end(hanging, stop).await;
        let cause = if is_told {
            Cause::Stopped
        } else {
            Cause::Overtime
        };
        assert_eq!(ended.cause, cause);
        gone(&id).await;
    }
}

#[tokio::test]
async fn a_program_that_prints_nothing_for_too_long_is_ended_also_if_it_closed_its_output() {
    for (name, script) in [
        ("quiet", "echo once; sleep 600"),
        ("closed", "exec >&- 2>&-; sleep 600"),
        ("deaf", "trap '' INT TERM; exec sleep 600 >&- 2>&-"),
    ] {
        let id = run_id(name);
        let quiet = Run {
            quiet_max: Some(Duration::from_millis(200)),
            ..run(script, &id)
        };
        let (ended, _, _) = to_end(quiet, std::future::pending()).await;
        assert_eq!(ended.cause, Cause::Silent, "{script}");
        gone(&id).await;
    }
    let id = run_id("talks");
    let talks = Run {
        quiet_max: Some(LONG),
        ..run("for i in 1 2 3; do echo $i; sleep 0.05; done", &id)
    };
    let (ended, seen, _) = to_end(talks, std::future::pending()).await;
    assert_eq!((ended.cause, &seen[..]), (Cause::Itself, &b"1\n2\n3\n"[..]));
}

#[tokio::test]
async fn a_program_inherits_what_it_may_and_nothing_else() {
    let program = Program {
        only: Some(vec!["PATH".to_owned(), "CARGO_PKG_*".to_owned()]),
        ..sh("env | sed s/=.*//").env("GIVEN", "yes")
    };
    let run = Run {
        program: program.clone(),
        ..Run::default()
    };
    let (_, seen, _) = to_end(run, std::future::pending()).await;
    let (pty, mut output) = program.in_terminal(SIZE).expect("it starts");
    let mut typed = Vec::new();
    while let Some(piece) = output.recv().await {
        typed.extend(piece);
    }
    drop(pty);
    for seen in [seen, typed] {
        let seen = String::from_utf8_lossy(&seen).into_owned();
        let names: Vec<&str> = seen.lines().map(str::trim).collect();
        let may = |name: &&str| {
            let shells_own = ["PWD", "SHLVL", "_", "TERM", "OLDPWD", "SHELL"];
            ["PATH", "GIVEN"].contains(name)
                || name.starts_with("CARGO_PKG_")
                || shells_own.contains(name)
        };
        assert!(
            names.contains(&"PATH") && names.contains(&"GIVEN"),
            "{seen}"
        );
        assert!(names.iter().all(may), "{seen}");
    }
}

#[tokio::test]
async fn a_program_is_told_to_end_by_its_own_signal_first() {
    for (stop, word) in [
        (StopBy::Int, "int"),
        (StopBy::Term, "term"),
        (StopBy::Hup, "hup"),
    ] {
        let traps =
            "trap 'echo int; exit' INT; trap 'echo term; exit' TERM; trap 'echo hup; exit' HUP";
        let run = Run {
            program: Program {
                stop,
                ..sh(&format!("{traps}; echo up; sleep 600 & wait"))
            },
            ..Run::default()
        };
        let (pieces, mut printed) = tokio::sync::mpsc::channel::<Piece>(16);
        let (up, is_up) = tokio::sync::oneshot::channel();
        let read = async {
            let (mut seen, mut up) = (String::new(), Some(up));
            while let Some(piece) = printed.recv().await {
                seen.push_str(&String::from_utf8_lossy(&piece.bytes));
                if let Some(up) = up.take_if(|_| seen.contains("up")) {
                    up.send(()).expect("it is waited for");
                }
            }
            seen
        };
        let told = async { is_up.await.expect("it comes up") };
        let (ended, seen) = tokio::join!(run.to_end(pieces, told), read);
        assert_eq!(ended.expect("it runs").cause, Cause::Stopped);
        assert_eq!(seen.split_whitespace().last(), Some(word));
    }
}
