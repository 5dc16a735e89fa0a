//! What others on the machine, and git, get to see of a hub's files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use switchboard_tests::{Project, switchboard};

fn run(project: &Project, program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(project.root())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn git_takes_nothing_of_the_hubs() {
    let project = Project::new().with_bus();
    let git = |line: &str| {
        run(
            &project,
            Path::new("git"),
            &line.split(' ').collect::<Vec<_>>(),
        )
    };
    let ours = |line: &[&str]| run(&project, switchboard(), line);
    git("init -q");
    ours(&["cert", "init"]);
    let hub = project.start();
    hub.client().create("one");
    ours(&["backup"]);
    let backups = fs::read_dir(project.data_dir().join("backups")).expect("it is made");
    assert!(backups.count() > 0);
    for made in [
        ".switchboard/key",
        ".switchboard/bus/ca.key",
        ".jetpack/swarm.db",
        ".jetpack/protocol",
    ] {
        assert!(project.root().join(made).exists(), "{made}");
    }
    fs::write(project.root().join("main.rs"), "").expect("it can be written");
    git("add -A");
    assert_eq!(git("ls-files --cached"), "main.rs\n");
    hub.stop();
    // One from before there was such a file gets it with the next start.
    let ignore = project.data_dir().join(".gitignore");
    fs::remove_file(&ignore).expect("it is there");
    project.start().stop();
    assert_eq!(fs::read_to_string(&ignore).expect("it is there"), "*\n");
}

fn mode(path: &Path) -> u32 {
    let meta = fs::metadata(path).expect("it is there");
    meta.permissions().mode() & 0o777
}

#[test]
fn what_was_open_to_others_is_closed_by_a_start_unless_a_group_is_let_in() {
    let mut project = Project::new();
    let cases = [
        ("0600", 0o700, 0o600),
        ("0640", 0o750, 0o640),
        ("0600", 0o700, 0o600),
    ];
    for (n, (asked, dir, file)) in cases.into_iter().enumerate() {
        project = project.with_variable("SWITCHBOARD_STORE_MODE", asked);
        let hub = project.start();
        hub.client().create(&n.to_string());
        assert_eq!(mode(project.data_dir()), dir, "{asked}");
        for end in ["", "-wal", "-shm"] {
            let path = format!("{}{end}", project.database().display());
            assert_eq!(mode(Path::new(&path)), file, "{asked} {path}");
        }
        assert_eq!(mode(&project.data_dir().join("key")), 0o600);
        hub.stop();
        for (path, mode) in [(project.data_dir(), 0o755), (&project.database(), 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
    }
}
