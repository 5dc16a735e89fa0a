//! Messages both ways, and what becomes of them.

use serde_json::{Value, json};

use super::findings::Told;
use super::gateway::fresh;
use super::log::{is_ack, is_of};
use super::probe::Probe;
use super::wire;

pub async fn tell(probe: &Probe) -> Told {
    let here = probe.hire("writer").await?;
    let (one, two) = (probe.name("reader"), probe.name("second"));
    probe.main.announce(&[&one, &two]).await?;
    outward(probe, &here, &one, &two).await?;
    everybody(probe, &here, &one, &two).await?;
    inward(probe, &here, &one).await?;
    asked(probe, &here, &one).await
}

fn letter(to: &[&str], body: &str) -> Value {
    json!({ "toAgents": to, "subject": "conformance", "body": body, "priority": "high", "expectsReply": false })
}

/// From an agent of the hub to one, and to two of the checker's.
async fn outward(probe: &Probe, here: &str, one: &str, two: &str) -> Told {
    let findings = &probe.findings;
    for payload in [
        json!({ "subject": "s", "body": "b" }),
        letter(&[], "nobody"),
    ] {
        let answer = probe.publish("message", here, payload, json!({})).await?;
        findings.answered(
            "runtime.message.to_agents_required",
            answer.status == 400,
            &answer,
            "400",
        );
    }
    let payload = letter(&[one], "to one");
    let answer = probe.publish("message", here, payload.clone(), json!({}));
    let answer = answer.await?.expect(201)?;
    let event = probe.published(&answer).await?;
    streamed(probe, &event).await?;
    let differs = ["toAgents", "subject", "body", "priority", "expectsReply"]
        .into_iter()
        .find(|name| event["payload"][name] != payload[name]);
    findings.judge(
        "runtime.message.payload",
        differs.is_none(),
        &answer.sent,
        &event,
        format!(
            "the payload with the {} that was sent",
            differs.unwrap_or("members")
        ),
    );
    findings.judge(
        "runtime.envelope.to_agent",
        event["toAgentId"] == one,
        &answer.sent,
        &event,
        format!("toAgentId {one}"),
    );
    probe.main.ack(&event, "accepted", one, json!({})).await?;
    let answer = probe.publish("message", here, letter(&[one, two], "to two"), json!({}));
    let answer = answer.await?.expect(201)?;
    let event = probe.published(&answer).await?;
    findings.judge(
        "runtime.envelope.to_agent",
        event.get("toAgentId").is_none_or(Value::is_null),
        &answer.sent,
        &event,
        "no toAgentId, since there are two recipients",
    );
    let both = json!({ "ackedByAgentIds": [one, two] });
    probe.main.ack(&event, "accepted", one, both).await
}

/// What was read as a page comes as a stream, too, after the number that the reader names.
async fn streamed(probe: &Probe, event: &Value) -> Told {
    let seq = event["seq"].as_u64().unwrap_or(0);
    let (path, ticket) = ("/runtime/v1/outbox", probe.main.ticket().0);
    let after = seq.saturating_sub(1);
    let frame = wire::first_of_stream(&probe.client, path, &ticket, after, probe.soon()).await?;
    let is_it = frame.as_ref().is_some_and(|frame| {
        let said = serde_json::from_str::<Value>(&frame.data);
        frame.id.as_deref() == Some(&*seq.to_string()) && said.is_ok_and(|said| said == *event)
    });
    probe.findings.judge(
        "runtime.plane.consumer_reads_others",
        is_it,
        format!("GET {path} with Accept: text/event-stream and Last-Event-ID: {after}"),
        frame.map_or("no event of a stream".to_owned(), |frame| frame.data),
        format!("event {seq} under its number, as in a page: {event}"),
    );
    Ok(())
}

/// `all` is who was there when it was published.
async fn everybody(probe: &Probe, here: &str, one: &str, two: &str) -> Told {
    let id = json!({ "eventId": fresh("evt") });
    let payload = letter(&["all"], "a check of conformance; nothing is to be done");
    let answer = probe.publish("message", here, payload.clone(), id.clone());
    let answer = answer.await?.expect(201)?;
    let event = probe.published(&answer).await?;
    let late = probe.name("late");
    probe.main.announce(&[&late]).await?;
    let again = probe.publish("message", here, payload, id).await?;
    let named = |list: &Value, name: &str| {
        let list = list.as_array();
        list.is_some_and(|list| list.iter().any(|one| one == name))
    };
    for (list, shown) in [
        (&event["payload"]["toAgents"], event.to_string()),
        (&again.body["recipients"], again.to_string()),
    ] {
        let holds = named(list, one) && named(list, two) && !named(list, &late);
        probe.findings.judge(
            "runtime.message.all_expanded",
            holds && !named(list, "all"),
            &answer.sent,
            shown,
            format!("{one} and {two} by name, not 'all', and not {late}, which came later"),
        );
    }
    let by = json!({ "ackedByAgentIds": [one, two] });
    probe.main.ack(&event, "accepted", one, by).await
}

/// To an agent of the hub, twice.
async fn inward(probe: &Probe, here: &str, one: &str) -> Told {
    let findings = &probe.findings;
    let body = fresh("said");
    let sent = probe
        .main
        .publish("message", one, letter(&[here], &body), |_| {})
        .await?;
    let id = &sent["eventId"];
    let ack = probe.find(|event| is_ack(event, "accepted", id)).await;
    let shown = ack.as_ref().map_or("no ack".to_owned(), Value::to_string);
    let is_theirs = |ack: &Value| {
        ack["sourceNodeId"] == *probe.main.hub() && ack["payload"]["refEventId"] == *id
    };
    findings.judge(
        "runtime.ack.receiver_outbox",
        ack.as_ref().is_some_and(is_theirs),
        &sent,
        &shown,
        "an accepted ack in the outbox of the node that took it",
    );
    let is_carried = ack
        .as_ref()
        .is_none_or(|ack| ack["corrId"] == sent["corrId"]);
    findings.judge(
        "runtime.envelope.corr_id_carried",
        is_carried,
        &sent,
        &shown,
        "the corrId of what is acknowledged",
    );
    let again = probe
        .main
        .publish("message", one, letter(&[here], &body), |event| {
            for name in ["eventId", "corrId", "createdAt", "expiresAt"] {
                event.insert(name.to_owned(), sent[name].clone());
            }
            event["trace"]["attempt"] = json!(2);
        });
    again.await?;
    let got = handed(probe, here, &body).await;
    match got {
        Ok(got) => {
            findings.judge(
                "runtime.message.exactly_once",
                got == 1,
                format!("the message {id}, twice"),
                format!("{here} was handed it {got} times"),
                "once",
            );
        }
        Err(super::findings::Stop::Unknown(why)) => {
            findings.skip("runtime.message.exactly_once", why);
        }
        Err(stop) => return Err(stop),
    }
    Ok(())
}

/// How often an agent was handed a message with this body.
async fn handed(probe: &Probe, agent: &str, body: &str) -> Result<usize, super::findings::Stop> {
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..2 {
        for message in probe.inbox(agent).await? {
            if message["payload"].to_string().contains(body) {
                ids.insert(message["id"].to_string());
            }
        }
    }
    Ok(ids.len())
}

/// A message that wants a reply is processed when there is one, and not before.
async fn asked(probe: &Probe, here: &str, one: &str) -> Told {
    let findings = &probe.findings;
    let mut payload = letter(&[here], "please reply");
    payload["expectsReply"] = json!(true);
    let sent = probe.main.publish("message", one, payload, |_| {}).await?;
    let id = &sent["eventId"];
    let accepted = probe.find(|event| is_ack(event, "accepted", id)).await;
    let corr = json!({ "corrId": sent["corrId"] });
    let payload = json!({ "refEventId": id, "body": "here it is" });
    let answer = probe.publish("reply", here, payload, corr).await?;
    let is_reply = |event: &Value| is_of(event, "reply", "refEventId", id);
    let reply = match answer.status {
        201 => probe.find(is_reply).await,
        _ => None,
    };
    findings.judge(
        "runtime.envelope.corr_id_carried",
        reply
            .as_ref()
            .is_some_and(|reply| reply["corrId"] == sent["corrId"]),
        &answer.sent,
        reply.as_ref().map_or(answer.to_string(), Value::to_string),
        format!("a reply with the corrId {}", sent["corrId"]),
    );
    let processed = match &reply {
        Some(_) => probe.find(|event| is_ack(event, "processed", id)).await,
        None => None,
    };
    let seq = |event: &Option<Value>| event.as_ref().and_then(|event| event["seq"].as_u64());
    findings.judge(
        "runtime.ack.processed_terminal",
        seq(&processed).is_some() && seq(&reply).is_some() && seq(&reply) < seq(&processed),
        format!("{sent}, then {}", answer.sent),
        json!([accepted, reply, processed]),
        "an accepted ack, the reply, then a processed ack",
    );
    if let Some(reply) = reply {
        probe.main.ack(&reply, "accepted", one, json!({})).await?;
    }
    Ok(())
}
