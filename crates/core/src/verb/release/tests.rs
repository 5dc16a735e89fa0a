//! Versions of capabilities: which may be published, what each gate does, who has the skill afterwards.

use std::time::Duration;

use super::super::testing::{Standing, Swarm, joined, node, register, word};
use super::super::{Deregister, Unpublish};
use super::*;
use crate::capability::{Granted, Provenance, SkillRef};
use crate::outbox::{Control, News, Outgoing};
use crate::task::{TaskKind, TaskStatus};

fn skill(name: &str, version: &str) -> SkillRef {
    SkillRef {
        name: name.to_owned(),
        version: version.to_owned(),
        path: format!("/skills/{name}"),
    }
}

pub(in crate::verb) fn manifest(version: &str) -> Manifest {
    Manifest {
        capability: "cap.x".into(),
        name: "X".to_owned(),
        version: version.to_owned(),
        owner_agent: "A".into(),
        owner_node: "here".into(),
        delegation: skill("delegate-x", version),
        executor: skill("execute-x", version),
        contract_ref: Some("schema://x".to_owned()),
        contract_schema: None,
        eta_seconds: 900,
        eligible: Vec::new(),
        fallback_nodes: Vec::new(),
        provenance: Provenance {
            checksum: format!("sha256:{version}"),
            signature: None,
            key_id: None,
        },
        published_by: "steward".into(),
    }
}

pub(in crate::verb) fn begin(manifest: Manifest) -> BeginRelease {
    BeginRelease {
        manifest,
        eligible: Vec::new(),
        by: "steward".to_owned(),
        attempt: "1".to_owned(),
        provenance: GateResult::passed(PublishGate::Provenance, ""),
    }
}

pub(in crate::verb) fn finish(version: &str) -> FinishRelease {
    let gates = [
        PublishGate::Install,
        PublishGate::Wire,
        PublishGate::Smoke,
        PublishGate::Rollout,
    ];
    FinishRelease {
        capability: "cap.x".into(),
        version: version.to_owned(),
        attempt: "1".to_owned(),
        contract_schema: None,
        gates: gates.map(|gate| GateResult::passed(gate, "")).to_vec(),
    }
}

/// The node "here" with the agents A and B, and another node that is joined.
fn swarm() -> Swarm {
    let mut swarm = Swarm::new();
    joined(&mut swarm, "there");
    swarm.join("A", &["rust"]);
    swarm.join("B", &[]);
    swarm
}

fn publish(swarm: &mut Swarm, version: &str) -> Capability {
    let begun = swarm.ok(begin(manifest(version)));
    assert!(matches!(begun, Begun::Open(_)), "{begun:?}");
    let finished = swarm.ok(finish(version));
    *finished.capability.expect("all gates let it pass")
}

fn known(swarm: &Swarm) -> Option<&Capability> {
    swarm.records.values().find_map(Capability::of)
}

fn release<'a>(swarm: &'a Swarm, version: &str) -> &'a Release {
    let mut all = swarm.records.values().filter_map(Release::of);
    all.find(|one| one.manifest.version == version)
        .expect("it was tried")
}

fn skills(swarm: &Swarm, agent: &str) -> Vec<String> {
    let skills = swarm.agent(agent).skills.iter();
    skills.map(|word| word.to_string()).collect()
}

fn told(swarm: &Swarm) -> Vec<News> {
    let rows = swarm.records.values().filter_map(Outgoing::of);
    let mut rows: Vec<&Outgoing> = rows.collect();
    rows.sort_by_key(|row| row.seq);
    rows.iter().map(|row| row.event.news.clone()).collect()
}

#[test]
fn a_version_that_passes_all_gates_is_in_use_and_its_agents_have_the_skill() {
    let mut swarm = swarm();
    let capability = publish(&mut swarm, "1.0.0");
    assert_eq!(capability.status, CapabilityStatus::Active);
    assert_eq!(capability.published_at, swarm.now);
    assert_eq!(swarm.said(), ["capability_published", "task_created"]);
    let gates = &release(&swarm, "1.0.0").gates;
    let words: Vec<&str> = gates.iter().map(|one| one.gate.as_str()).collect();
    let all: Vec<&str> = PublishGate::ALL.iter().map(|gate| gate.as_str()).collect();
    assert_eq!(words, all);
    assert!(gates.iter().all(|one| one.outcome == GateOutcome::Passed));
    assert_eq!(skills(&swarm, "A"), ["cap.x", "rust"]);
    assert!(skills(&swarm, "B").is_empty());
    // All of it is told to other nodes, in the commit that made it so.
    let kinds = told(&swarm).into_iter().map(|news| match news {
        News::Signal { record, .. } => match record {
            Control::Catalog { .. } => "catalog".to_owned(),
            Control::Index { .. } => "index".to_owned(),
            Control::Routing { .. } => "routing".to_owned(),
            other => panic!("{other:?}"),
        },
        other => other.kind().to_owned(),
    });
    let kinds: Vec<String> = kinds.collect();
    assert_eq!(
        kinds,
        [
            "catalog",
            "index",
            "routing",
            "task_create",
            "task_accept",
            "ack"
        ]
    );
}

#[test]
fn what_an_index_grants_survives_a_new_registration_and_nobody_grants_it_to_itself() {
    let mut swarm = swarm();
    publish(&mut swarm, "1.0.0");
    swarm.ok(register("A", &["sql", "cap.y", "CAP.Z"]));
    assert_eq!(skills(&swarm, "A"), ["cap.x", "sql"]);
    swarm.ok(Deregister { agent: "A".into() });
    swarm.ok(register("A", &[]));
    assert_eq!(skills(&swarm, "A"), ["cap.x"]);
    swarm.ok(register("C", &["cap.x"]));
    assert!(skills(&swarm, "C").is_empty());
}

#[test]
fn who_may_be_its_owner_by_standing() {
    // runtime.catalog.owner_active
    for standing in Standing::ALL {
        let mut swarm = Swarm::with_agent(standing);
        joined(&mut swarm, "there");
        let begun = swarm.ok(begin(manifest("1.0.0")));
        let is_there = matches!(standing, Standing::Live | Standing::Stopping);
        assert_eq!(matches!(begun, Begun::Open(_)), is_there, "{standing:?}");
        if let Begun::Failed(failed) = begun {
            let said = |gate| failed.gates.iter().find(|one| one.gate == gate).unwrap();
            assert_eq!(said(PublishGate::OwnerAlive).outcome, GateOutcome::Failed);
            assert_eq!(said(PublishGate::Install).outcome, GateOutcome::Skipped);
            assert_eq!(known(&swarm), None, "nothing is left of it");
            assert_eq!(swarm.said(), ["capability_rejected"]);
        }
    }
}

#[test]
fn a_version_stays_what_it_was_and_no_lower_one_follows() {
    let mut swarm = swarm();
    publish(&mut swarm, "1.1.0");
    let other = |version: &str, checksum: &str| {
        let mut manifest = manifest(version);
        manifest.provenance.checksum = checksum.to_owned();
        begin(manifest)
    };
    for (verb, expected) in [
        (begin(manifest("1.1.0")), "ok"),
        (other("1.1.0", "sha256:0"), "version_exists"),
        (begin(manifest("1.0.9")), "invalid"),
        (begin(manifest("1.1.0-rc.1")), "invalid"),
    ] {
        let outcome = swarm.run(verb.clone());
        assert_eq!(word(&outcome), expected, "{verb:?}");
        if let Ok(begun) = outcome {
            assert!(matches!(begun, Begun::Same(_)));
        }
    }
    publish(&mut swarm, "1.2.0");
    // An older one under another manifest is that, and not merely too low.
    assert_eq!(
        word(&swarm.run(other("1.1.0", "sha256:0"))),
        "version_exists"
    );
    assert_eq!(word(&swarm.run(begin(manifest("1.1.0")))), "invalid");
}

#[test]
fn a_gate_that_fails_leaves_the_version_before_as_it_was() {
    let mut swarm = swarm();
    let before = publish(&mut swarm, "1.0.0");
    swarm.ok(begin(manifest("1.1.0")));
    assert_eq!(known(&swarm), Some(&before), "while it is being published");
    let mut failing = finish("1.1.0");
    failing.gates.truncate(2);
    failing
        .gates
        .push(GateResult::failed(PublishGate::Smoke, "exit code 1"));
    let finished = swarm.ok(failing);
    assert_eq!(finished.capability, None);
    assert_eq!(swarm.said(), ["capability_rejected"]);
    let gates = finished.release.gates.iter().map(|one| one.outcome);
    let passed = gates.filter(|one| *one == GateOutcome::Passed).count();
    assert_eq!((passed, finished.release.gates.len()), (6, 10));
    assert_eq!(known(&swarm), Some(&before));
    // It can be tried again, and somebody else's try that is overtaken is none any more.
    swarm.ok(begin(manifest("1.1.0")));
    let overtaken = FinishRelease {
        attempt: "0".to_owned(),
        ..finish("1.1.0")
    };
    assert_eq!(word(&swarm.run(overtaken)), "version_exists");
    assert_eq!(
        swarm.ok(finish("1.1.0")).release.state,
        ReleaseState::Published
    );
}

#[test]
fn an_owner_that_goes_meanwhile_is_found_in_the_last_look() {
    let mut swarm = swarm();
    swarm.ok(begin(manifest("1.0.0")));
    assert_eq!(known(&swarm).unwrap().status, CapabilityStatus::Publishing);
    swarm.ok(Deregister { agent: "A".into() });
    let finished = swarm.ok(finish("1.0.0"));
    let last = finished.release.gates.last().unwrap();
    assert_eq!(
        (last.gate, last.outcome),
        (PublishGate::PostCheck, GateOutcome::Failed)
    );
    assert_eq!(known(&swarm), None);
}

#[test]
fn a_publication_that_nobody_goes_on_with_fails() {
    let mut swarm = swarm();
    swarm.ok(begin(manifest("1.0.0")));
    swarm.wait(limits::PUBLISHING_WITHIN - Duration::from_millis(1));
    assert_eq!(swarm.ok(EndReleases).done, 0);
    swarm.wait(Duration::from_millis(1));
    assert_eq!(swarm.ok(EndReleases).done, 1);
    assert_eq!(release(&swarm, "1.0.0").state, ReleaseState::Failed);
    assert_eq!(known(&swarm), None);
    assert_eq!(word(&swarm.run(finish("1.0.0"))), "version_exists");
}

#[test]
fn it_is_published_where_its_owner_is() {
    let mut swarm = swarm();
    let mut there = node("there");
    there.endpoint = Some("https://there".to_owned());
    swarm
        .records
        .insert(Record::from(there.clone()).key(), there.into());
    let mut elsewhere = manifest("1.0.0");
    elsewhere.owner_node = "there".into();
    let refused = swarm.run(begin(elsewhere)).unwrap_err();
    let expected = Refusal::WrongNode {
        node: "there".into(),
        endpoint: Some("https://there".to_owned()),
    };
    assert_eq!(refused, expected);
}

#[test]
fn what_is_disabled_or_taken_back_grants_nothing() {
    for (disable, status, again) in [
        (true, CapabilityStatus::Disabled, "ok"),
        (false, CapabilityStatus::Retired, "invalid"),
    ] {
        let mut swarm = swarm();
        publish(&mut swarm, "1.0.0");
        let unpublish = Unpublish {
            capability: "cap.x".into(),
            by: "steward".to_owned(),
            disable,
        };
        let capability = swarm.ok(unpublish.clone());
        assert_eq!(capability.status, status);
        assert!(capability.index.eligible.is_empty());
        assert_eq!(skills(&swarm, "A"), ["rust"]);
        assert_eq!(swarm.said(), ["capability_withdrawn"]);
        assert_eq!(swarm.ok(unpublish), capability, "the same again");
        // The same version comes back if it was only disabled; a higher one always.
        assert_eq!(
            word(&swarm.run(begin(manifest("1.0.0")))),
            again,
            "{status}"
        );
        publish(&mut swarm, "1.0.1");
        assert_eq!(skills(&swarm, "A"), ["cap.x", "rust"]);
    }
    let unknown = Unpublish {
        capability: "cap.y".into(),
        by: "steward".to_owned(),
        disable: false,
    };
    assert_eq!(word(&swarm().run(unknown)), "capability_not_found");
}

#[test]
fn versions_and_capabilities_are_bounded() {
    let mut swarm = swarm();
    for n in 0..=limits::CAPABILITY_VERSIONS_MAX {
        swarm.wait(Duration::from_millis(1));
        publish(&mut swarm, &format!("1.{n}.0"));
    }
    let releases = swarm.records.values().filter_map(Release::of);
    let mut versions: Vec<&str> = releases.map(|one| &*one.manifest.version).collect();
    versions.sort_unstable();
    assert_eq!(versions.len(), limits::CAPABILITY_VERSIONS_MAX);
    assert!(!versions.contains(&"1.0.0"), "the oldest went");
    let one = known(&swarm).cloned().unwrap();
    for n in 1..limits::CAPABILITIES_MAX {
        let mut other = one.clone();
        other.manifest.capability = format!("cap.n{n}").into();
        swarm
            .records
            .insert(Record::from(other.clone()).key(), other.into());
    }
    let mut more = manifest("1.0.0");
    more.capability = "cap.more".into();
    assert_eq!(word(&swarm.run(begin(more.clone()))), "too_many");
    swarm.records.remove(&Capability::at("cap.n1"));
    assert_eq!(word(&swarm.run(begin(more))), "ok");
}

#[test]
fn everybody_but_the_owner_is_asked_to_install_the_skill() {
    // runtime.skill.task_created, runtime.skill.targets, runtime.skill.payload
    let mut swarm = swarm();
    swarm.join("C", &[]);
    publish(&mut swarm, "1.0.0");
    let parts: Vec<_> = swarm.tasks.values().collect();
    let audience = parts.iter().flat_map(|task| &task.about.audience);
    let audience: Vec<&str> = audience.map(|agent| agent.as_str()).collect();
    assert_eq!(audience, ["B", "C"]);
    for part in parts {
        assert_eq!(part.about.kind, TaskKind::SkillDistribution);
        assert_eq!(part.status(), TaskStatus::Ready);
    }
    let commission = told(&swarm).into_iter().find_map(|news| match news {
        News::TaskCreate(task) => Some(task),
        _ => None,
    });
    let installs = commission
        .expect("it is told")
        .installs
        .expect("it installs");
    assert_eq!(installs.skill, skill("delegate-x", "1.0.0"));
    assert_eq!(
        installs.required_by,
        swarm.now + limits::SKILL_INSTALLED_WITHIN
    );
    let granted = swarm.records.values().filter_map(Granted::of).count();
    assert_eq!(granted, 1, "to delegate is not to do");
}
