//! Who can be named, by which words, and who can be added.

use switchboard_core::limits;
use switchboard_core::verb::Speaker;
use switchboard_wire::squidrun::{Role, Roles, Target};

fn names(word: &str) -> String {
    match Roles::default().target(word) {
        None => "nobody".to_owned(),
        Some(Target::Slot { id, owner }) => format!("{id} of {owner}"),
        Some(target) => target.id().to_string(),
    }
}

#[test]
fn every_word_names_its_target() {
    for (target, words) in [
        ("architect", "architect 1 arch lead director ARCH Architect"),
        (
            "builder",
            "builder 2 devops orchestrator infra infrastructure backend back worker-b implementer-b",
        ),
        ("oracle", "oracle 3 analyst ana investigator"),
        ("builder-bg-1 of builder", "builder-bg-1 bg-2-1"),
        ("builder-bg-2 of builder", "builder-bg-2 bg-2-2"),
        ("builder-bg-3 of builder", "builder-bg-3 bg-2-3"),
        ("user", "user User"),
        ("telegram", "telegram"),
        (
            "nobody",
            "builder-bg-4 bg-2-4 builder-bg-0 hub cli all steward switchboard workers 4 0 x",
        ),
    ] {
        for word in words.split_whitespace() {
            assert_eq!(names(word), target, "{word}");
        }
    }
    assert_eq!(
        (names(" builder "), names("")),
        ("builder".into(), "nobody".into())
    );
}

#[test]
fn every_header_word_names_its_role() {
    let roles = Roles::default();
    for (role, words) in [
        ("architect", "ARCH ARCHITECT LEAD DIRECTOR arch"),
        ("builder", "BUILDER DEVOPS Builder"),
        ("oracle", "ORACLE ANALYST ANA"),
        ("builder-bg-1", "BUILDER-BG-1"),
        ("builder-bg-3", "BUILDER-BG-3"),
        ("", "HUB USER CLI INFRA 1 X BUILDER-BG-4"),
    ] {
        for word in words.split_whitespace() {
            let found = roles.by_header(word).map_or("", |role| &role.id);
            assert_eq!(found, role, "{word}");
        }
    }
}

#[test]
fn each_canonical_target_has_its_role_pane_and_responsibilities() {
    let shown: Vec<String> = Roles::default()
        .iter()
        .map(|role| {
            format!(
                "{}|{}|{}|{}",
                role.id, role.title, role.pane, role.responsibilities
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "architect|Architect|1|coordination, decisions, review",
            "builder|Builder|2|implementation, testing, devops",
            "oracle|Oracle|3|investigation, docs, benchmarks",
            "builder-bg-1|Background Builder Slot 1|bg-2-1|implementation delegated by Builder",
            "builder-bg-2|Background Builder Slot 2|bg-2-2|implementation delegated by Builder",
            "builder-bg-3|Background Builder Slot 3|bg-2-3|implementation delegated by Builder",
        ]
    );
}

#[test]
fn whoever_speaks_is_a_role_a_slot_or_somebody_else() {
    let roles = Roles::default();
    let long = "x".repeat(limits::ID_BYTES_MAX + 1);
    for (word, id) in [
        ("devops", "role builder"),
        ("3", "role oracle"),
        ("bg-2-2", "slot builder-bg-2 of builder"),
        ("user", "other user"),
        ("reviewer", "other reviewer"),
        ("cli", "other cli"),
        // Nobody speaks as these.
        ("hub", "other cli"),
        ("Steward", "other cli"),
        ("switchboard", "other cli"),
        ("telegram", "other cli"),
        ("all", "other cli"),
        ("builder-bg-9", "other cli"),
        ("a b", "other cli"),
        ("", "other cli"),
        (&long, "other cli"),
    ] {
        let shown = match roles.speaker(word) {
            Speaker::Role(id) => format!("role {id}"),
            Speaker::Slot { id, owner } => format!("slot {id} of {owner}"),
            Speaker::Other(id) => format!("other {id}"),
        };
        assert_eq!(shown, id, "{word}");
    }
}

fn reviewer() -> Role {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    Role {
        id: "reviewer".to_owned(),
        pane: "4".to_owned(),
        aliases: words(&["review"]),
        header: words(&["rev"]),
        responsibilities: "reads every change".to_owned(),
        skills: words(&["review"]),
        command: Some("claude".to_owned()),
        ..Role::default()
    }
}

#[test]
fn a_configured_role_is_a_target_like_any_other() {
    let roles = Roles::with(vec![reviewer()]).expect("a role");
    for word in ["reviewer", "4", "review", "Review"] {
        assert_eq!(
            roles.target(word),
            Some(Target::Role("reviewer".into())),
            "{word}"
        );
    }
    for word in ["REVIEWER", "REV"] {
        assert_eq!(
            roles.by_header(word).map(|role| &*role.id),
            Some("reviewer")
        );
    }
    assert_eq!(roles.speaker("review"), Speaker::Role("reviewer".into()));
    let last = roles.iter().last().expect("seven roles");
    assert_eq!((roles.iter().count(), &*last.title), (7, "Reviewer"));
    assert_eq!(last.responsibilities, "reads every change");
    assert_eq!(last.command.as_deref(), Some("claude"));
    let all: Vec<&str> = roles.ids().map(|id| id.as_str()).collect();
    assert_eq!(all, ["architect", "builder", "oracle", "reviewer"]);
}

#[test]
fn a_word_that_is_taken_reserved_or_malformed_is_named() {
    let with = |change: fn(&mut Role)| {
        let mut role = reviewer();
        change(&mut role);
        Roles::with(vec![role]).map_err(|why| why.to_string())
    };
    let syntax = "must be 1 to 64 letters, digits, - and _, a letter or digit first";
    for (change, told) in [
        (
            (|role| role.id = "Builder".into()) as fn(&mut Role),
            "squidrun.roles.builder: the role builder is built in; only its command can be set",
        ),
        (
            |role| role.id = "devops".into(),
            "squidrun.roles.devops: 'devops' is taken by the role builder; choose another word",
        ),
        (
            |role| role.id = "dev/ops".into(),
            &format!("squidrun.roles.dev/ops: 'dev/ops' {syntax}"),
        ),
        (
            |role| role.id = "user".into(),
            "squidrun.roles.user: 'user' is reserved; choose another word",
        ),
        (
            |role| role.id = "workers".into(),
            "squidrun.roles.workers: 'workers' is reserved; choose another word",
        ),
        (
            |role| role.id = "others-x".into(),
            "squidrun.roles.others-x: 'others-x' is reserved; choose another word",
        ),
        (
            |role| role.id = "builder-bg-4".into(),
            "squidrun.roles.builder-bg-4: 'builder-bg-4' is reserved; choose another word",
        ),
        (
            |role| role.pane = String::new(),
            "squidrun.roles.reviewer.pane: is required",
        ),
        (
            |role| role.pane = "2".into(),
            "squidrun.roles.reviewer.pane: '2' is taken by the role builder; choose another word",
        ),
        (
            |role| role.pane = "bg-2-9".into(),
            "squidrun.roles.reviewer.pane: 'bg-2-9' is reserved; choose another word",
        ),
        (
            |role| role.aliases = vec!["r".into(), "a~b".into()],
            &format!("squidrun.roles.reviewer.aliases: 'a~b' {syntax}"),
        ),
        (
            |role| role.aliases = vec!["Hub".into()],
            "squidrun.roles.reviewer.aliases: 'Hub' is reserved; choose another word",
        ),
        (
            |role| role.header = vec!["ana".into()],
            "squidrun.roles.reviewer.header: 'ANA' is taken by the role oracle; choose another word",
        ),
        (
            |role| role.header = vec!["HUB".into()],
            "squidrun.roles.reviewer.header: 'HUB' is reserved; choose another word",
        ),
        (
            |role| role.header = vec!["REV 2".into()],
            &format!("squidrun.roles.reviewer.header: 'REV 2' {syntax}"),
        ),
        (
            |role| role.command = Some(" ".into()),
            "squidrun.roles.reviewer.command: must not be empty",
        ),
        (
            |role| role.skills = vec![String::new()],
            "squidrun.roles.reviewer.skills[0]: must not be empty",
        ),
    ] {
        assert_eq!(with(change).map(|_| ()), Err(told.to_owned()));
    }
    let two = Roles::with(vec![
        reviewer(),
        Role {
            id: "sre".to_owned(),
            ..reviewer()
        },
    ]);
    let told = two.map(|_| ()).expect_err("the pane is taken").to_string();
    assert_eq!(
        told,
        "squidrun.roles.sre.pane: '4' is taken by the role reviewer; choose another word"
    );
}

#[test]
fn configured_roles_are_bounded() {
    let role = |n: usize| Role {
        id: format!("role{n}"),
        pane: format!("p{n}"),
        ..Role::default()
    };
    let max = limits::ROLES_MAX;
    for (count, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        assert_eq!(
            Roles::with((0..count).map(role).collect()).is_ok(),
            fits,
            "{count}"
        );
    }
    let max = limits::ROLE_WORDS_MAX;
    for (count, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        let words = || (0..count).map(|n| format!("w{n}")).collect();
        for words in [
            Role {
                aliases: words(),
                ..role(0)
            },
            Role {
                header: words(),
                ..role(0)
            },
        ] {
            assert_eq!(Roles::with(vec![words]).is_ok(), fits, "{count}");
        }
    }
    let max = limits::ROLE_WORD_BYTES_MAX;
    for (bytes, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        let id = "x".repeat(bytes);
        assert_eq!(
            Roles::with(vec![Role { id, ..role(0) }]).is_ok(),
            fits,
            "{bytes}"
        );
    }
}
