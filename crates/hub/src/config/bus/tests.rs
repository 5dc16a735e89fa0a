//! The bus's settings from their four sources.

use std::path::Path;

use super::settings::ADDRESSES_MAX;
use super::*;
use crate::config::{CONFIG_FILE, Config, ConfigError, DATA_DIR, Loaded, Overrides};

/// As its authors keep it, every key.
const DEV: &str = r#"
[director]
interval_seconds = 60
max_workers = 3
max_retries = 3

[timeouts]
worker_heartbeat_ttl_seconds = 90
worker_watchdog_seconds = 3600
issue_claim_stale_seconds = 21600

[retry]
backoff_mode = "exponential"
backoff_initial_seconds = 1
backoff_max_seconds = 30

[agent_bus]
mode = "director_broker"
listen_addr = "0.0.0.0"
listen_port = 8731
security = "docker_network_only"
max_message_bytes = 65536
heartbeat_interval_seconds = 15

[policy.sync_main]
max_commits_behind = 20
max_seconds_behind = 86400
require_catalog_hash_match = true

[memory]
catalog_path = "memory/catalog.json"
engram_root_dir = "memory"
buffer_max_bytes = 20000
compact_when_over_bytes = 20000
engram_max_bytes = 12000
st_max_total_bytes = 400000
st_max_files = 64
lt_max_total_bytes = 2000000
lt_max_files = 512
memory_md_max_bytes = 16000
memory_md_max_items = 48

[rate_limits.github]
max_concurrent_requests = 2
min_seconds_between_writes = 2
cooldown_on_rate_limit_seconds = 60

[rate_limits.model]
max_concurrent_requests = 1
min_seconds_between_requests = 1
cooldown_on_error_seconds = 10
"#;

struct Sources<'a> {
    dev: &'a str,
    own: &'a str,
    env: &'a [(&'a str, &'a str)],
    flags: &'a [(&'static str, &'a str)],
}

const NOTHING: Sources<'static> = Sources {
    dev: "",
    own: "",
    env: &[],
    flags: &[],
};

fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let project = tempfile::tempdir().unwrap();
    load_in(project.path(), sources)
}

fn load_in(project: &Path, sources: &Sources) -> Result<Loaded, ConfigError> {
    std::fs::create_dir_all(project.join("config")).unwrap();
    std::fs::write(project.join(DEV_FILE), sources.dev).unwrap();
    std::fs::write(project.join(CONFIG_FILE), sources.own).unwrap();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let overrides = Overrides {
        project: Some(project.to_owned()),
        settings: sources
            .flags
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect(),
    };
    Config::load(None, sources.env.iter().map(owned), &overrides)
}

fn dev(dev: &str) -> Result<Loaded, ConfigError> {
    load(&Sources { dev, ..NOTHING })
}

fn flat(table: &toml::Table, prefix: &str, into: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            toml::Value::Table(members) => flat(members, &format!("{key}."), into),
            value => into.push((key, value.clone())),
        }
    }
}

// agentbus.overview.config_file
#[test]
fn a_dev_file_with_every_key_loads_unchanged_and_says_what_holds_anyway() {
    let project = tempfile::tempdir().unwrap();
    let loaded = load_in(
        project.path(),
        &Sources {
            dev: DEV,
            ..NOTHING
        },
    )
    .unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let mut expected = Bus::of_project(project.path(), &project.path().join(DATA_DIR));
    expected.memory.root_dir = project.path().join("memory");
    expected.memory.root_name = Some("memory".to_owned());
    expected.memory.catalog = project.path().join("memory/catalog.json");
    expected.memory.catalog_name = Some("memory/catalog.json".to_owned());
    expected.listen = vec!["0.0.0.0:8731".parse().unwrap()];
    expected.port_is_asked = true;
    expected.director.max_workers = Some(3);
    assert_eq!(loaded.config.bus, expected);
}

// agentbus.config.max_message_bytes, agentbus.config.heartbeat_interval
#[test]
fn every_key_of_a_dev_file_reaches_its_setting_from_either_file() {
    let project = tempfile::tempdir().unwrap();
    let changed = DEV
        .replace("_seconds = ", "_seconds = 1")
        .replace("exponential", "linear")
        .replace("docker_network_only", "mTLS")
        .replace("8731", "9731")
        .replace("\"0.0.0.0\"", "\"::\"")
        .replace("match = true", "match = false")
        .replace("memory/catalog.json", "kept/list.json")
        .replace("\"memory\"", "\"kept\"")
        .replace("max_workers = 3", "max_workers = 4")
        .replace("max_retries = 3", "max_retries = 4")
        .replace("65536", "75536")
        .replace("behind = ", "behind = 1")
        .replace("20000\n", "20001\n")
        .replace("12000\n", "12001\n")
        .replace("400000", "400001")
        .replace("2000000", "2000001")
        .replace("files = ", "files = 1")
        .replace("md_max_bytes = 16000", "md_max_bytes = 16001")
        .replace("items = 48", "items = 49")
        .replace("requests = ", "requests = 1")
        .replace("writes = 2", "writes = 12");
    let from_dev = Sources {
        dev: &changed,
        ..NOTHING
    };
    let from_own = Sources {
        own: &changed,
        ..NOTHING
    };
    let bus = load_in(project.path(), &from_dev).unwrap().config.bus;
    assert_eq!(bus, load_in(project.path(), &from_own).unwrap().config.bus);
    let seconds = Duration::from_secs;
    let path = |name: &str| project.path().join(name);
    let expected = Bus {
        enabled: true,
        listen: vec!["[::]:9731".parse().unwrap()],
        port_is_asked: true,
        security: Security::MutualTls,
        interfaces: Vec::new(),
        dev_file: Some(path(DEV_FILE)),
        max_message_bytes: 75_536,
        heartbeat_interval: seconds(115),
        connections_max: 12_000,
        frames_per_second: Some(2_000),
        heartbeat_ttl: seconds(190),
        watchdog: seconds(13_600),
        claim_stale: seconds(121_600),
        accept_within: seconds(20),
        adopt_issues: false,
        operator_buffer_bytes: 1024 * 1024,
        director: Director {
            interval: seconds(160),
            max_workers: Some(4),
            max_retries: 4,
        },
        retry: Retry {
            mode: Backoff::Linear,
            initial: seconds(11),
            max: seconds(130),
        },
        sync_main: SyncMain {
            max_commits_behind: 120,
            max_seconds_behind: 186_400,
            require_catalog_hash_match: false,
            required_action: SyncAction::MergeMain,
            repository: project.path().to_owned(),
            branch: "main".to_owned(),
        },
        memory: Memory {
            enabled: true,
            root_dir: path("kept"),
            root_name: Some("kept".to_owned()),
            catalog: path("kept/list.json"),
            catalog_name: Some("kept/list.json".to_owned()),
            buffer_max_bytes: 20_001,
            compact_when_over_bytes: 20_001,
            engram_max_bytes: 12_001,
            budgets: Budgets {
                short_term: Budget {
                    bytes_max: 400_001,
                    files_max: 164,
                },
                long_term: Budget {
                    bytes_max: 2_000_001,
                    files_max: 1512,
                },
            },
            memory_md_max_bytes: 16_001,
            memory_md_max_items: 49,
        },
        github: GithubLimits {
            max_concurrent_requests: 12,
            min_between_writes: seconds(12),
            cooldown_on_rate_limit: seconds(160),
        },
        model: ModelLimits {
            max_concurrent_requests: 11,
            min_between_requests: seconds(11),
            cooldown_on_error: seconds(110),
        },
    };
    assert_eq!(bus, expected);
}

#[test]
fn each_key_with_a_wrong_type_is_refused_with_file_and_key() {
    let mut keys = Vec::new();
    flat(&DEV.parse().unwrap(), "", &mut keys);
    let more = ["agent_bus.interfaces", "agentbus.adopt_issues"];
    keys.extend(more.map(|key| (key.to_owned(), toml::Value::Boolean(true))));
    let action = "policy.sync_main.required_action".to_owned();
    keys.push((action, toml::Value::String("merge_main".to_owned())));
    assert_eq!(keys.len(), DEV_SETTINGS.len(), "every key is tried");
    for (key, right) in keys {
        let text = right.is_str();
        let wrong = [
            if text { "7" } else { "\"seven\"" },
            "[1]",
            "{ a = 1 }",
            "1.5",
        ];
        for value in wrong {
            let said = dev(&format!("{key} = {value}\n")).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{key} (")), "{value}: {said}");
            assert!(said.contains(DEV_FILE), "{value}: {said}");
        }
    }
    for section in [
        "agent_bus = 1",
        "policy.sync_main = []",
        "rate_limits = \"x\"",
    ] {
        let said = dev(section).unwrap_err().to_string();
        assert!(said.contains("expected a section"), "{section}: {said}");
    }
    assert!(matches!(dev("[agent_bus"), Err(ConfigError::Syntax { .. })));
}

#[test]
fn numbers_are_kept_within_their_bounds() {
    let cases = [
        ("agent_bus.listen_port", 65_535, Some(65_536)),
        ("agent_bus.max_message_bytes", 1024, Some(1023)),
        (
            "agent_bus.max_message_bytes",
            16 * 1024 * 1024,
            Some(16 * 1024 * 1024 + 1),
        ),
        ("agent_bus.heartbeat_interval_seconds", 1, Some(0)),
        ("timeouts.worker_heartbeat_ttl_seconds", 1, Some(-1)),
        ("director.max_workers", 1, Some(0)),
        ("director.max_retries", 100, Some(101)),
        ("retry.backoff_initial_seconds", 0, Some(-1)),
        ("policy.sync_main.max_commits_behind", 0, Some(1_000_001)),
        ("memory.engram_max_bytes", 4096, Some(4095)),
        ("rate_limits.model.max_concurrent_requests", 1, Some(0)),
        ("rate_limits.model.min_seconds_between_requests", 0, None),
    ];
    for (key, right, wrong) in cases {
        assert!(dev(&format!("{key} = {right}")).is_ok(), "{key} = {right}");
        if let Some(wrong) = wrong {
            let said = dev(&format!("{key} = {wrong}")).unwrap_err().to_string();
            assert!(said.starts_with(key), "{said}");
        }
    }
}

#[test]
fn what_a_dev_file_says_beyond_its_own_keys_is_left_alone() {
    let loaded = dev(
        "name = \"x\"\n[http]\nlisten = 7\n[bus]\nlisten = 7\n[log]\nformat = \"pretty\"\n\
         [agent_bus]\ncolour = 1\n[memory]\nenabled = \"auto\"\n[policy.review]\nx = [{ a = 1 }]\n",
    )
    .unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let defaults = load(&NOTHING).unwrap().config;
    assert_eq!(loaded.config.http, defaults.http);
    assert_eq!(loaded.config.bus.listen, defaults.bus.listen);
}

#[test]
fn flags_stand_over_environment_over_our_file_over_the_dev_file_over_defaults() {
    let dev = "[agent_bus]\nlisten_addr = \"0.0.0.0\"\nlisten_port = 1\nmax_message_bytes = 2001";
    let own =
        "[bus]\nlisten = \"127.0.0.1:2\"\n[agent_bus]\nlisten_port = 9\nmax_message_bytes = 2002";
    let env: &[_] = &[
        ("SWITCHBOARD_BUS_LISTEN", "[::1]:3"),
        ("SWITCHBOARD_AGENT_BUS_MAX_MESSAGE_BYTES", "2003"),
        ("SWITCHBOARD_POLICY_SYNC_MAIN_MAX_COMMITS_BEHIND", "5"),
    ];
    let flags: &[_] = &[("bus.listen", "127.0.0.1:4,localhost:5")];
    let bus = |sources: &Sources| load(sources).unwrap().config.bus;
    let shown = |bus: &Bus| {
        let listen: Vec<String> = bus.listen.iter().map(ToString::to_string).collect();
        (listen.join(" "), bus.max_message_bytes)
    };
    let mut sources = NOTHING;
    assert_eq!(shown(&bus(&sources)), ("127.0.0.1:8731".to_owned(), 65_536));
    sources.dev = dev;
    assert_eq!(shown(&bus(&sources)), ("0.0.0.0:1".to_owned(), 2001));
    sources.own = own;
    assert_eq!(shown(&bus(&sources)), ("127.0.0.1:2".to_owned(), 2002));
    sources.env = env;
    assert_eq!(shown(&bus(&sources)), ("[::1]:3".to_owned(), 2003));
    assert_eq!(bus(&sources).sync_main.max_commits_behind, 5);
    sources.flags = flags;
    let told = ("127.0.0.1:4 127.0.0.1:5".to_owned(), 2003);
    assert_eq!(shown(&bus(&sources)), told);
}

#[test]
fn frames_are_rationed_unless_it_is_said_otherwise() {
    let rate = |own: &str| load(&Sources { own, ..NOTHING }).map(|loaded| loaded.config.bus.rate());
    let (per_second, burst) = (2_000, 4_000);
    assert_eq!(rate("").unwrap(), Some(Rate { per_second, burst }));
    let (per_second, burst) = (1, 2);
    let slow = rate("bus.frames_per_second = 1").unwrap();
    assert_eq!(slow, Some(Rate { per_second, burst }));
    assert_eq!(rate("bus.frames_per_second = 0").unwrap(), None);
    assert!(rate("bus.frames_per_second = 1000000").unwrap().is_some());
    for wrong in ["-1", "1000001", "\"off\""] {
        let said = rate(&format!("bus.frames_per_second = {wrong}")).unwrap_err();
        assert!(
            said.to_string().starts_with("bus.frames_per_second"),
            "{said}"
        );
    }
}

#[test]
fn the_bus_is_off_only_where_it_is_said_to_be() {
    let off = Sources {
        own: "[bus]\nlisten = \"off\"\n[agent_bus]\nlisten_port = 9",
        ..NOTHING
    };
    assert!(!load(&off).unwrap().config.bus.enabled);
    let on = Sources {
        flags: &[("bus.listen", "127.0.0.1:7")],
        ..off
    };
    let bus = load(&on).unwrap().config.bus;
    assert!(bus.enabled);
    assert_eq!(bus.listen[0].port(), 7);
    assert!(dev("[bus]\nlisten = \"off\"").unwrap().config.bus.enabled);
}

#[test]
fn another_dev_file_can_be_named_or_none() {
    let broken = "[retry]\nbackoff_mode = \"none of yours\"";
    let named = |own: &str| {
        load(&Sources {
            dev: broken,
            own,
            ..NOTHING
        })
    };
    assert!(named("").is_err());
    assert!(named("[bus]\ndev_file = \"off\"").is_ok());
    assert!(named("[bus]\ndev_file = \"config/other.toml\"").is_ok());
    assert!(named("[bus]\ndev_file = 7").is_err());
    let by_env = Sources {
        dev: broken,
        env: &[("SWITCHBOARD_BUS_DEV_FILE", "off")],
        ..NOTHING
    };
    assert_eq!(load(&by_env).unwrap().config.bus.dev_file, None);
}

#[test]
fn settings_that_do_not_go_together_are_warned_about() {
    let cases = [
        ("timeouts.worker_heartbeat_ttl_seconds = 15", 1),
        ("timeouts.worker_heartbeat_ttl_seconds = 16", 0),
        ("retry.backoff_initial_seconds = 31", 1),
        ("memory.compact_when_over_bytes = 20001", 1),
    ];
    for (text, warned) in cases {
        assert_eq!(dev(text).unwrap().warnings.len(), warned, "{text}");
    }
}

#[test]
fn names_that_reach_commands_or_the_system_are_checked() {
    let own = |own: &str| load(&Sources { own, ..NOTHING });
    for branch in ["main", "release/1.0", "origin/main", "a@b"] {
        let said = own(&format!("policy.sync_main.branch = \"{branch}\""));
        assert_eq!(said.unwrap().config.bus.sync_main.branch, branch);
    }
    let strange = [
        "", "-x", "a/-x", "a..b", "a b", "a~1", "a^", "a:b", "a*", "a@{1}", "/a", "a/", "a.lock",
        ".a", "a.", "a\\\\b", "a\\u0000",
    ];
    for branch in strange {
        let said = own(&format!("policy.sync_main.branch = \"{branch}\"")).unwrap_err();
        assert!(
            said.to_string().starts_with("policy.sync_main.branch"),
            "{said}"
        );
    }
    let interfaces = |list: &str| own(&format!("agent_bus.interfaces = {list}"));
    assert!(interfaces("[\"docker0\", \"br-0123456789ab\"]").is_ok());
    for list in [
        "[\"\"]",
        "[\"a/b\"]",
        "[\"sixteen-bytes-xx\"]",
        "[1]",
        "\"docker0\"",
    ] {
        assert!(interfaces(list).is_err(), "{list}");
    }
    let listen = |list: &str| own(&format!("bus.listen = {list}"));
    assert!(listen("[\"127.0.0.1:1\", \"[::1]:1\"]").is_ok());
    for list in [
        "[]",
        "[\"off\"]",
        "\"8731\"",
        "8731",
        "false",
        "\"127.0.0.1\"",
    ] {
        assert!(listen(list).is_err(), "{list}");
    }
    let many = |count: usize| format!("[{}]", "\"127.0.0.1:1\",".repeat(count));
    assert!(listen(&many(ADDRESSES_MAX)).is_ok());
    assert!(listen(&many(ADDRESSES_MAX + 1)).is_err());
}

#[test]
fn engrams_lie_in_the_project_only_if_a_setting_says_so() {
    let project = tempfile::tempdir().unwrap();
    let path = |name: &str| project.path().join(name);
    for (own, dev, root, catalog) in [
        (
            "",
            "",
            ".switchboard/memory",
            ".switchboard/memory/catalog.json",
        ),
        (
            "data_dir = \"state\"",
            "",
            "state/memory",
            "state/memory/catalog.json",
        ),
        (
            "",
            "[memory]\nst_max_files = 3",
            ".switchboard/memory",
            ".switchboard/memory/catalog.json",
        ),
        (
            "",
            "[memory]\nengram_root_dir = \"memory\"",
            "memory",
            "memory/catalog.json",
        ),
        (
            "[memory]\nengram_root_dir = \"kept\"",
            "",
            "kept",
            "kept/catalog.json",
        ),
        (
            "[memory]\ncatalog_path = \"list.json\"",
            "",
            ".switchboard/memory",
            "list.json",
        ),
    ] {
        let sources = Sources {
            own,
            dev,
            ..NOTHING
        };
        let memory = load_in(project.path(), &sources).unwrap().config.bus.memory;
        assert_eq!(memory.root_dir, path(root), "{own} {dev}");
        assert_eq!(memory.catalog, path(catalog), "{own} {dev}");
    }
}
