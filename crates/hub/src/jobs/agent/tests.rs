//! With real programs.

use std::future::pending;
use std::os::unix::process::ExitStatusExt as _;

use switchboard_child::orphans;

use super::*;

fn agent(script: &str) -> config::Agent {
    config::Agent {
        command: Some(format!("sh -c '{script}'")),
        ..config::Agent::default()
    }
}

fn call(script: &str, dir: &Path, run: &str) -> Call {
    Call {
        request: b"{\"phase\":\"one\"}".to_vec(),
        log: dir.join("logs/1.log"),
        ..Call::new(&agent(script), dir, run).unwrap()
    }
}

async fn run(script: &str) -> (Printed, String) {
    let dir = tempfile::tempdir().unwrap();
    let call = call(script, dir.path(), "run-test");
    let printed = call.run(async |_| {}, pending()).await.unwrap();
    let log = fs::read_to_string(dir.path().join("logs/1.log")).unwrap();
    (printed, log)
}

#[tokio::test]
async fn a_program_reads_the_request_and_its_output_is_the_response() {
    let (printed, log) =
        run("cat; echo token=ghp_0123456789abcdefghijklmnopqrstuvwxyz >&2; exit 3").await;
    assert_eq!(printed.raw, "{\"phase\":\"one\"}");
    assert_eq!(printed.exit(), Some(3));
    assert_eq!(printed.length.bytes, 15);
    assert!(!printed.length.truncated);
    assert!(printed.stderr.starts_with("token="));
    assert!(log.contains("{\"phase\"") && !log.contains("ghp_"), "{log}");
}

#[tokio::test]
async fn of_an_output_without_end_the_beginning_is_kept_and_the_rest_counted() {
    let (printed, log) = run("head -c 100000000 /dev/zero | tr \"\\0\" x; echo end >&2").await;
    assert_eq!(printed.raw.len(), limits::JOB_TEXT_BYTES_MAX);
    assert_eq!(printed.length.bytes, 100_000_000);
    assert!(printed.length.truncated);
    assert_eq!(printed.length.sha256.len(), 64);
    assert_eq!(printed.stderr, "end\n");
    assert!(log.len() <= LOG_BYTES_MAX);
}

#[test]
fn a_text_is_cut_at_its_bound_and_within_no_character() {
    let most = limits::JOB_TEXT_BYTES_MAX;
    for (text, kept, is_cut) in [
        ("x".repeat(most - 1), most - 1, false),
        ("x".repeat(most), most, false),
        ("x".repeat(most + 1), most, true),
        (format!("{}ä", "x".repeat(most - 1)), most - 1, true),
    ] {
        let (shown, length) = Kept::of(&text);
        assert_eq!((shown.len(), length.truncated), (kept, is_cut));
        assert!(text.starts_with(&shown));
        assert_eq!(length.bytes, text.len() as u64);
    }
}

#[tokio::test]
async fn a_program_sees_what_agents_need_and_its_run_id() {
    let (printed, _) = run("env").await;
    let names: Vec<&str> = printed
        .raw
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    assert!(
        names.contains(&"PATH") && names.contains(&RUN_ID),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.starts_with("CARGO")),
        "{names:?}"
    );
    assert!(printed.raw.contains("GIT_CONFIG_KEY_0=safe.directory"));
}

#[tokio::test]
async fn one_that_hangs_takes_too_long_or_is_told_to_stop_ends_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let soon = Duration::from_millis(200);
    for (cause, time_max, quiet_max) in [
        (Cause::Overtime, soon, Duration::MAX),
        (Cause::Silent, Duration::MAX, soon),
        (Cause::Stopped, Duration::MAX, Duration::MAX),
    ] {
        let id = format!("jobs-{cause:?}-{}", std::process::id());
        let call = Call {
            time_max,
            quiet_max,
            ..call("sleep 600 & wait", dir.path(), &id)
        };
        let (told, mut number) = (tokio::sync::Notify::new(), None);
        let began = async |process: Option<u32>| {
            number = process;
            told.notify_one();
        };
        let stop = async {
            match cause {
                Cause::Stopped => told.notified().await,
                Cause::Itself | Cause::Overtime | Cause::Silent => pending().await,
            }
        };
        let printed = call.run(began, stop).await.unwrap();
        assert_eq!((printed.ended.cause, printed.exit()), (cause, None));
        assert!(printed.ended.status.signal().is_some());
        assert!(number.is_some());
        let (_, left) = orphans::end(&[&id], Duration::ZERO).await;
        assert_eq!(left, 0);
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let agent = config::Agent {
        command: Some("no-such-program-anywhere".to_owned()),
        ..config::Agent::default()
    };
    let call = Call::new(&agent, dir.path(), "x").unwrap();
    let error = call.run(async |_| {}, pending()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn our_own_process_has_a_start_that_stays() {
    let ours = started(std::process::id());
    assert!(ours.is_some());
    assert_eq!(ours, started(std::process::id()));
    assert_eq!(started(u32::MAX), None);
}
