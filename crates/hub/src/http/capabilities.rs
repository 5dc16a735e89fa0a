//! Capabilities: published, listed, taken back; and the reviews of those whose tasks went wrong.

use std::path::Path;

use switchboard_core::capability::{
    Capability, GateOutcome, GateResult, Manifest, PublishGate, Release,
};
use switchboard_core::node::Node;
use switchboard_core::skill_review::SkillReview;
use switchboard_core::verb::{BeginRelease, Begun, FinishRelease, ResolveReview, Unpublish};
use switchboard_core::{Refusal, limits};
use switchboard_wire::jetpack::from_wire::{self, page_size};
use switchboard_wire::runtime::capability_from_wire::{Given, capability_id, manifest};
use switchboard_wire::runtime::{
    CapabilitiesResponse, CapabilityRecord, CapabilityResponse, CapabilityShown,
    ResolveReviewRequest, ReviewQuery, ReviewResponse, ReviewsResponse, UnpublishQuery,
    capability_from_wire, capability_to_wire, proof,
};

use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState};
use crate::call::{self, to_json};
use crate::hub;
use crate::runtime::{Skills, node_id};

/// Not kept under a key: the same version of the same manifest is the same publication.
pub async fn publish(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, _) = Change::read::<CapabilityRecord>(&app, &call).await?;
    let own = node_id(&app.hub).await?;
    let given = manifest(&call.body, &own)?;
    let provenance = app.provenance(&given);
    let Given {
        mut manifest,
        eligible,
        ..
    } = given;
    let skills = app.skills();
    let attempt = app.ids.fresh("rel");
    // What a reference names is part of what is published.
    let mut gates = Vec::new();
    let begin = BeginRelease {
        manifest: manifest.clone(),
        eligible,
        by: change.caller.name().to_owned(),
        attempt: attempt.clone(),
        provenance,
    };
    match app.hub.run(begin).await? {
        Begun::Same(capability) => return Ok(shown(200, &capability, &[])),
        Begun::Failed(release) => return Err(rejected(&release)),
        Begun::Open(_) => gates.extend(skills.gates(&mut manifest).await),
    }
    let finish = FinishRelease {
        capability: manifest.capability.clone(),
        version: manifest.version.clone(),
        attempt,
        contract_schema: manifest.contract_schema,
        gates,
    };
    let finished = app.hub.run(finish).await?;
    match finished.capability {
        Some(capability) => Ok(shown(201, &capability, &finished.release.gates)),
        None => Err(rejected(&finished.release)),
    }
}

fn shown(status: u16, capability: &Capability, gates: &[GateResult]) -> Reply {
    Reply::json(
        status,
        &CapabilityResponse {
            capability: capability_to_wire::details(capability),
            gates: gates.iter().map(capability_to_wire::gate).collect(),
        },
    )
}

fn rejected(release: &Release) -> Failure {
    let mut gates = release.gates.iter();
    let failed = gates.find(|gate| gate.outcome == GateOutcome::Failed);
    let (gate, note) = failed.map_or(("", ""), |gate| (gate.gate.as_str(), &gate.note));
    let Manifest {
        capability,
        version,
        ..
    } = &release.manifest;
    call::Failure::Rejected {
        gate: gate.to_owned(),
        message: format!("{capability} {version} was not published: {gate}: {note}"),
        gates: release.gates.iter().map(capability_to_wire::gate).collect(),
    }
    .into()
}

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let own = node_id(&app.hub).await?;
    let found = app.hub.read(move |reader| {
        let mut found = Vec::new();
        let nodes = reader.privates::<Node>(&Node::all())?;
        let others = nodes.into_iter().map(|node| node.node_id);
        for node in [own].into_iter().chain(others) {
            let range = Capability::of_node(&node, limits::CAPABILITIES_MAX);
            found.extend(reader.privates::<Capability>(&range)?);
        }
        Ok(found)
    });
    let mut found = found.await?;
    found.sort_by(|one, other| one.id().cmp(other.id()));
    Ok(Reply::ok(&CapabilitiesResponse {
        capabilities: found.iter().map(capability_to_wire::details).collect(),
    }))
}

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let id = capability_id("id", &call.id()?)?;
    let (key, range) = (id.to_string(), Release::versions_of(&id));
    let capability = app
        .hub
        .read(move |reader| reader.private::<Capability>(key));
    let releases = app
        .hub
        .read(move |reader| reader.privates::<Release>(&range));
    let (capability, releases) = (capability.await?, releases.await?);
    if capability.is_none() && releases.is_empty() {
        let missing = Refusal::CapabilityNotFound { capability: id };
        return Err(hub::Error::Refused(missing).into());
    }
    Ok(Reply::ok(&CapabilityShown {
        capability: capability.as_ref().map(capability_to_wire::details),
        releases: releases.iter().map(capability_to_wire::release).collect(),
    }))
}

pub async fn unpublish(app: AppState, call: Call) -> Result<Reply, Failure> {
    let caller = call.caller(&app, None).await?;
    let query: UnpublishQuery = call.query()?;
    let verb = Unpublish {
        capability: capability_id("id", &call.id()?)?,
        by: caller.name().to_owned(),
        disable: query.disable.unwrap_or(false),
    };
    let capability = app.hub.run(verb).await?;
    Ok(shown(200, &capability, &[]))
}

pub async fn reviews(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: ReviewQuery = call.query()?;
    let range = SkillReview::range(query.resolved.unwrap_or(false), page_size(query.limit)?);
    let found = app
        .hub
        .read(move |reader| reader.privates::<SkillReview>(&range));
    let reviews = found.await?;
    #[cfg(debug_assertions)]
    let reviews = crate::runtime::broken::reviews(reviews);
    Ok(Reply::ok(&ReviewsResponse {
        reviews: reviews.iter().map(capability_to_wire::review).collect(),
    }))
}

pub async fn resolve(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<ResolveReviewRequest>(&app, &call).await?;
    let verb = ResolveReview {
        review: call.id()?.into_owned(),
        by: change.caller.name().to_owned(),
        note: from_wire::reason(request.note, "resolved by a person")?,
    };
    let resolved = |review: &SkillReview| {
        to_json(&ReviewResponse {
            review: capability_to_wire::review(review),
        })
    };
    change.run(verb, 200, resolved).await
}

impl App {
    fn skills(&self) -> Skills {
        let dir = &self.hub.shared.runtime.skills_dir;
        Skills {
            dir: Path::new(&self.root).join(dir),
        }
    }

    /// Whether a manifest is what its publisher signed.
    fn provenance(&self, given: &Given) -> GateResult {
        let settings = &self.hub.shared.runtime;
        let provenance = &given.manifest.provenance;
        let failed = |why: String| GateResult::failed(PublishGate::Provenance, why);
        let checksum = capability_from_wire::checksum(&given.signed);
        if !provenance.checksum.eq_ignore_ascii_case(&checksum) {
            return failed(format!("its checksum is {checksum}"));
        }
        let Some(signature) = &provenance.signature else {
            return match settings.require_signature {
                true => {
                    failed("it is not signed, and [runtime] require_signature is set".to_owned())
                }
                false => {
                    GateResult::passed(PublishGate::Provenance, format!("unsigned, {checksum}"))
                }
            };
        };
        let Some(name) = &provenance.key_id else {
            return failed("a signature needs keyId, which names its key".to_owned());
        };
        let Some(key) = settings.publishers.get(name) else {
            return failed(format!("[runtime.publishers] has no key {name}"));
        };
        let digits = capability_from_wire::signature(signature).unwrap_or_default();
        match proof::is_signed(key, &given.signed, &digits) {
            true => GateResult::passed(PublishGate::Provenance, format!("signed by {name}")),
            false => failed(format!("its signature is not one by the key {name}")),
        }
    }
}
