//! `switchboard role run` in a real terminal: what arrives is typed, once; what is printed stays; the terminal is restored.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use switchboard_child::{Program, Pty, Size};
use switchboard_tests::{PATIENCE, Project, switchboard, until};
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

/// A person's terminal.
struct Terminal {
    pty: Pty,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn run(project: &Project, script: &str) -> Terminal {
        let mut program = Program::new(["sh", "-c", script]).env("SB", switchboard());
        program.dir = Some(project.root().to_owned());
        let size = Size {
            rows: 30,
            columns: 90,
        };
        let (pty, mut output) = program.in_terminal(size).expect("it starts");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&screen);
        thread::spawn(move || {
            while let Some(piece) = output.blocking_recv() {
                theirs.lock().expect("a screen").extend(piece);
            }
        });
        Terminal { pty, screen }
    }

    fn shows(&self, text: &str) -> bool {
        self.screen().contains(text)
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().expect("a screen")).into_owned()
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(work)
    }

    fn press(&self, keys: &str) {
        let pressed = self.pty.write(keys.as_bytes().to_vec());
        self.block_on(pressed).expect("it is open");
    }

    /// Until everything in it has ended.
    #[track_caller]
    fn ends(&self) {
        until("the terminal's program ends", || {
            self.pty.pid().is_none().then_some(())
        });
    }
}

fn project() -> Project {
    Project::new().with_variable("SWITCHBOARD_BROKER_LISTEN", "127.0.0.1:0")
}

fn write(project: &Project, name: &str, text: &str) {
    fs::write(project.root().join(name), text).expect("a file can be written");
}

fn read(project: &Project, name: &str) -> String {
    fs::read_to_string(project.root().join(name)).unwrap_or_default()
}

#[track_caller]
fn until_file(project: &Project, name: &str, text: &str) {
    until(&format!("{name} has {text:?}"), || {
        read(project, name).contains(text).then_some(())
    });
}

fn cli(project: &Project, words: &[&str]) -> Output {
    Command::new(switchboard())
        .args(words)
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .env_remove("SQUIDRUN_ROLE")
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[track_caller]
fn say(project: &Project, words: &[&str]) {
    let output = cli(project, &[&["say"], words].concat());
    assert!(output.status.success(), "{output:?}");
}

#[track_caller]
fn fails(project: &Project, words: &[&str], code: i32) -> String {
    let output = cli(project, words);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A message as the journal has it.
fn journaled(project: &Project, id: &str) -> Option<Value> {
    let output = cli(project, &["journal", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).ok()?;
    let mut rows = found["messages"].as_array()?.iter();
    rows.find(|row| row["messageId"] == *id).cloned()
}

/// Writes down every line that is typed.
const RECORD: &str =
    "echo $$ >>begun; while IFS= read -r line; do printf '%s\\n' \"$line\" >>typed; done";

#[test]
fn two_roles_talk_each_in_its_terminal() {
    // squidrun.startup.role_from_env, squidrun.startup.order, squidrun.extend.pane_command, squidrun.ack.delivered_verified
    let project = project();
    write(
        &project,
        "switchboard.toml",
        "[squidrun.roles.builder]\ncommand = \"sh builder.sh\"\n",
    );
    // As an agent begins: its role, the session, the journal, the handoff; then it checks in.
    write(
        &project,
        "builder.sh",
        "set -e\n\
         echo \"$SQUIDRUN_ROLE $SQUIDRUN_PANE_ID\" >role\n\
         grep -q '\"session\"' .squidrun/app-status.json\n\
         test -e .squidrun/runtime/evidence-ledger.db\n\
         cat .squidrun/handoffs/session.md >handoff\n\
         \"$SB\" say architect '(BUILDER #1): Builder online. Standing by.' --id hm-in\n\
         while IFS= read -r line; do\n\
         printf '%s\\n' \"$line\" >>builder-typed\n\
         case $line in *PING*) \"$SB\" inbox >inbox; \"$SB\" say architect 'PONG, and no header' --id hm-pong;; esac\n\
         done\n",
    );
    write(
        &project,
        "architect.sh",
        "while IFS= read -r line; do printf '%s\\n' \"$line\" >>architect-typed; done",
    );
    let hub = project.start();
    let _builder = Terminal::run(&project, "\"$SB\" role run builder");
    let _architect = Terminal::run(&project, "\"$SB\" role run lead -- sh architect.sh");
    until_file(&project, "architect-typed", "(BUILDER #1): Builder online.");
    assert_eq!(read(&project, "role"), "builder 2\n");
    assert!(read(&project, "handoff").contains("session_id"));
    let ping = [
        "builder",
        "(ARCH #1): PING",
        "--from",
        "arch",
        "--id",
        "hm-1",
    ];
    say(&project, &ping);
    until_file(&project, "architect-typed", "PONG, and no header");
    assert_eq!(read(&project, "builder-typed"), "(ARCH #1): PING\n");
    assert!(
        read(&project, "inbox").contains("PING"),
        "its own by default"
    );
    for (id, from) in [("hm-1", "architect"), ("hm-pong", "builder")] {
        until("the sender sees that it was typed", || {
            let row = journaled(&project, id)?;
            assert_eq!(row["from"], from);
            (row["ackStatus"] == "delivered.verified").then_some(())
        });
    }
    // The architect's briefing came without asking.
    until_file(&project, "architect-typed", "(HUB #1)");
    hub.stop();
}

#[test]
fn a_hub_that_is_killed_is_reconnected_to_and_nothing_is_typed_twice() {
    let project = project();
    write(&project, "record.sh", RECORD);
    let mut hub = project.start();
    let terminal = Terminal::run(&project, "\"$SB\" role run builder -- sh record.sh");
    say(
        &project,
        &["builder", "(ARCH #1): one", "--from", "architect"],
    );
    until_file(&project, "typed", "one");
    hub.kill();
    say(
        &project,
        &["builder", "(ARCH #2): two", "--from", "architect"],
    );
    let mut hub = project.start();
    until_file(&project, "typed", "two");
    hub.kill();
    let hub = project.start();
    say(
        &project,
        &["builder", "(ARCH #3): three", "--from", "architect"],
    );
    until_file(&project, "typed", "three");
    let lines = "(ARCH #1): one\n(ARCH #2): two\n(ARCH #3): three\n";
    assert_eq!(read(&project, "typed"), lines);
    assert_eq!(read(&project, "begun").lines().count(), 1, "one program");
    assert!(!terminal.shows("hub"), "{}", terminal.screen());
    hub.stop();
}

#[test]
fn what_comes_again_is_confirmed_again_and_not_typed() {
    // squidrun.ack.delivered_verified
    let project = project();
    write(&project, "record.sh", RECORD);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ws://{}", listener.local_addr().expect("an address"));
    let script = format!("\"$SB\" role run builder --broker {url} -- sh record.sh");
    let _terminal = Terminal::run(&project, &script);
    let message = |id: &str, text: &str, metadata: Value| {
        json!({ "type": "message", "from": "architect", "content": text, "metadata": metadata,
                "traceId": id, "eventId": format!("evt-{id}") })
    };
    let one = |metadata| message("m1", "(ARCH #1): one", metadata);
    let mut first = greeted(&listener);
    tell(&mut first, &one(json!({})));
    assert_eq!(receipt(&mut first), "m1");
    drop(first);
    let mut second = greeted(&listener);
    tell(&mut second, &one(json!({ "redelivered": true })));
    assert_eq!(receipt(&mut second), "m1");
    let asking = message("m2", "(ARCH #2): [ACK REQUIRED] two", json!({}));
    tell(&mut second, &asking);
    tell(&mut second, &message("m3", "(ARCH #3): three", json!({})));
    assert_eq!(receipt(&mut second), "m3", "the program acknowledges m2");
    until_file(&project, "typed", "three");
    let lines = "(ARCH #1): one\n(ARCH #2): [ACK REQUIRED] two\n(ARCH #3): three\n";
    assert_eq!(read(&project, "typed"), lines);
}

/// A hub's end of a connection that has registered.
fn greeted(listener: &TcpListener) -> WebSocket<TcpStream> {
    let (stream, _) = listener.accept().expect("it connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut socket = accept(stream).expect("it shakes hands");
    tell(&mut socket, &json!({ "type": "welcome", "clientId": 1 }));
    let register = hear(&mut socket);
    assert_eq!(register["role"], "builder");
    let registered = json!({ "type": "registered", "role": "builder", "paneId": "2" });
    tell(&mut socket, &registered);
    socket
}

fn tell(socket: &mut WebSocket<TcpStream>, frame: &Value) {
    let frame = Message::text(frame.to_string());
    socket.send(frame).expect("it listens");
}

fn hear(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().expect("it speaks") {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

fn receipt(socket: &mut WebSocket<TcpStream>) -> String {
    let frame = hear(socket);
    assert_eq!(frame["type"], "receipt");
    frame["traceId"].as_str().expect("an id").to_owned()
}

#[test]
fn what_a_program_prints_stays_in_its_terminal() {
    // squidrun.safety.terminal_private
    fn assert_absent(dir: &Path, secret: &str) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                assert_absent(&path, secret);
            } else {
                let bytes = fs::read(&path).unwrap_or_default();
                let found = String::from_utf8_lossy(&bytes).contains(secret);
                assert!(!found, "{}", path.display());
            }
        }
    }
    let project = project();
    write(&project, "record.sh", RECORD);
    let hub = project.start();
    let script = "\"$SB\" role run builder -- sh -c 'echo \"se\"\"cret-7\"; . ./record.sh'";
    let builder = Terminal::run(&project, script);
    let oracle = Terminal::run(&project, "\"$SB\" role run oracle -- cat");
    until("it is on the screen", || {
        builder.shows("secret-7").then_some(())
    });
    builder.press("typed by the person\r");
    until_file(&project, "typed", "typed by the person");
    // Whatever went out by then has arrived with this.
    say(
        &project,
        &["builder", "(ARCH #1): and now?", "--from", "architect"],
    );
    say(
        &project,
        &["oracle", "(ARCH #2): and now?", "--from", "architect"],
    );
    until_file(&project, "typed", "and now?");
    until("it is typed", || oracle.shows("and now?").then_some(()));
    assert!(!oracle.shows("secret-7"));
    fs::remove_file(project.root().join("typed")).expect("it is there");
    for text in ["secret-7", "typed by the person"] {
        assert_absent(project.root(), text);
    }
    let ended = hub.stop();
    assert!(!ended.stderr.contains("secret-7"));
}

#[test]
fn a_program_that_takes_pastes_gets_them_without_control_characters() {
    let project = project();
    write(
        &project,
        "paste.py",
        "import os, sys, tty\n\
         tty.setraw(0)\n\
         os.write(1, b'\\x1b[?20')\n\
         os.write(1, b'04h')\n\
         got = b''\n\
         while not got.endswith(b'\\x1b[201~\\r'):\n\
         \x20   got += os.read(0, 65536)\n\
         open('got', 'wb').write(got)\n",
    );
    let hub = project.start();
    let terminal = Terminal::run(&project, "\"$SB\" role run builder -- python3 paste.py");
    let text = "(ARCH #1): one\ntwo\u{1b}[201~\u{3}\u{9b}201~ three";
    say(&project, &["builder", text, "--from", "architect"]);
    terminal.ends();
    let got = read(&project, "got");
    assert_eq!(
        got,
        "\u{1b}[200~(ARCH #1): one\rtwo[201~201~ three\u{1b}[201~\r"
    );
    hub.stop();
}

#[test]
fn the_terminal_is_restored_and_the_exit_code_is_the_programs() {
    let project = project();
    let hub = project.start();
    let around = |program: &str| {
        format!(
            "stty -g >before; \"$SB\" role run builder -- {program}; echo $? >code; stty -g >after"
        )
    };
    let check = |code: &str| {
        assert_eq!(read(&project, "code").trim(), code);
        assert!(!read(&project, "before").is_empty());
        assert_eq!(read(&project, "before"), read(&project, "after"));
        for name in ["before", "code", "after"] {
            fs::remove_file(project.root().join(name)).expect("it is there");
        }
    };
    // By its own end, having left its own terminal in a mess.
    Terminal::run(
        &project,
        &around("sh -c 'stty raw -echo; stty size >size; exit 7'"),
    )
    .ends();
    check("7");
    assert_eq!(read(&project, "size"), "30 90\n");
    // By a crash.
    let crash = "sh -c 'printf \"\\033[?2004h\"; kill -9 $$'";
    let terminal = Terminal::run(&project, &around(crash));
    terminal.ends();
    check("137");
    assert!(terminal.shows("2004l"), "{:?}", terminal.screen());
    // By a signal to us; until then every key goes to the program.
    let script =
        "sh -c 'trap \"echo INT >>keys\" INT; echo $PPID >pid; while :; do sleep 0.1; done'";
    let terminal = Terminal::run(&project, &around(script));
    let pid = until("it runs", || read(&project, "pid").trim().parse().ok());
    terminal.press("\u{3}");
    until_file(&project, "keys", "INT");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, switchboard_tests::Signal::TERM).expect("it runs");
    terminal.ends();
    check("143");
    // With the hub gone.
    let mut hub = hub;
    let terminal = Terminal::run(&project, &around("sh -c 'echo up >up; read line; exit 5'"));
    until_file(&project, "up", "up");
    hub.kill();
    terminal.press("\r");
    terminal.ends();
    check("5");
}

#[test]
fn a_role_that_cannot_be_run_is_told_why() {
    let project = project();
    write(
        &project,
        "switchboard.toml",
        "[squidrun.roles.oracle]\ncommand = \"'open\"\n",
    );
    let run =
        |words: &[&'static str], code| fails(&project, &[&["role", "run"], words].concat(), code);
    for (words, code, part) in [
        (
            &["nobody", "--", "true"][..],
            2,
            "architect, builder, oracle",
        ),
        (&["builder"], 2, "role run builder -- COMMAND"),
        (&["builder-bg-1", "--", "true"], 2, "bg spawn"),
        (&["user", "--", "true"], 2, "inbox --user"),
        (&["oracle"], 1, "no command line"),
        (&["builder", "true"], 2, "--"),
    ] {
        let said = run(words, code);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    // Without a hub it waits for one, and without a terminal it works all the same.
    let waiting = Command::new(switchboard())
        .args([
            "role",
            "run",
            "architect",
            "--",
            "sh",
            "-c",
            "echo $SQUIDRUN_PANE_ID; exit 3",
        ])
        .current_dir(project.root())
        .env_remove("HM_SEND_PORT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(project.root().join("said")).expect("a file"))
        .spawn()
        .expect("it starts");
    until_file(&project, "said", "switchboard up");
    let hub = project.start();
    let ended = waiting.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "1");
    let said = run(&["builder", "--", "no-such-program"], 1);
    assert!(said.contains("no-such-program cannot be run"), "{said}");
    hub.stop();
    // The hub that runs does not know a role that was added since.
    fs::remove_file(project.root().join("switchboard.toml")).expect("it is there");
    let hub = project.start();
    write(
        &project,
        "switchboard.toml",
        "[squidrun.roles.reviewer]\npane = \"4\"\n",
    );
    let said = run(&["reviewer", "--", "true"], 1);
    assert!(said.contains("restart it"), "{said}");
    hub.stop();
}
