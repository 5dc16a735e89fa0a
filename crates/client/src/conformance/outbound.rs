//! Tasks that the hub's agents want done by the checker's, who do them well and badly.

use serde_json::{Value, json};
use switchboard_wire::IsoTime;

use super::findings::{Stop, Told};
use super::gateway::Gateway;
use super::inbound::task;
use super::probe::Probe;
use super::wire::Answer;
use crate::transport::now;

pub async fn tell(probe: &Probe) -> Told {
    let here = probe.hire("boss").await?;
    let other = probe.node("other").await?;
    let (doer, rival) = (probe.name("doer-there"), probe.name("rival"));
    probe.main.announce(&[&doer]).await?;
    other.announce(&[&rival]).await?;
    let story = Outbound {
        probe,
        other: &other,
        here,
        doer,
        rival,
    };
    story.refused().await?;
    story.one_winner().await?;
    story.done().await?;
    story.failed().await
}

struct Outbound<'a> {
    probe: &'a Probe,
    /// A node that has nothing to say about the tasks of the first one.
    other: &'a Gateway,
    here: String,
    doer: String,
    rival: String,
}

impl Outbound<'_> {
    async fn ask(&self, payload: Value) -> Result<Answer, Stop> {
        self.probe
            .publish("task_create", &self.here, payload, json!({}))
            .await
    }

    fn task(&self, to: &[&str]) -> Value {
        let mut payload = task(&self.probe.task_id(), "", &self.here);
        payload["toAgents"] = json!(to);
        payload
    }

    async fn refused(&self) -> Told {
        let findings = &self.probe.findings;
        for (clause, name, value) in [
            ("runtime.task_create.fields", "taskId", Value::Null),
            ("runtime.task_create.fields", "title", Value::Null),
            (
                "runtime.task_create.routing_fields",
                "toAgents",
                json!(self.doer),
            ),
            (
                "runtime.task_create.routing_fields",
                "requiredCapabilities",
                json!(7),
            ),
        ] {
            let mut payload = self.task(&[&self.doer]);
            payload[name] = value;
            let answer = self.ask(payload).await?;
            let expected = format!("400: {name} is not what it should be");
            findings.answered(clause, answer.status == 400, &answer, expected);
        }
        let answer = self.ask(self.task(&[])).await?;
        let is_no_route = |answer: &Answer| answer.status == 400 && answer.code() == "no_route";
        findings.answered(
            "runtime.route.missing_both",
            answer.status == 400,
            &answer,
            "400: neither toAgents nor requiredCapabilities",
        );
        let nobody = self.task(&[&self.probe.name("nobody")]);
        let answer = self.ask(nobody.clone()).await?;
        let id = &nobody["taskId"];
        let is_told = self
            .probe
            .log
            .all()
            .iter()
            .any(|event| event["payload"]["taskId"] == *id);
        findings.answered(
            "runtime.route.no_route",
            is_no_route(&answer) && !is_told,
            &answer,
            "400 no_route, and no event",
        );
        Ok(())
    }

    /// Agents of two nodes are named: one node gets the task.
    async fn one_winner(&self) -> Told {
        let payload = self.task(&[&self.doer, &self.rival]);
        let answer = self.ask(payload).await?;
        let event = match answer.status {
            201 => self.probe.published(&answer).await?,
            _ => Value::Null,
        };
        self.probe.findings.judge(
            "runtime.route.one_winner",
            event["payload"]["toAgents"] == json!([self.doer]),
            &answer.sent,
            format!("{answer}; {event}"),
            format!("a task for {} alone, whose node comes first", self.doer),
        );
        if event.is_null() {
            return Ok(());
        }
        // The other node does it all the same, and nobody may believe it.
        self.step(
            &self.probe.main,
            "task_accept",
            &event,
            json!({ "acceptedByAgentId": self.doer, "etaSeconds": 600 }),
        )
        .await?;
        self.step(self.other, "task_complete", &event, json!({ "completedByAgentId": self.rival, "resultSummary": "mine", "completedAt": now() })).await?;
        let (holds, order) = self.becomes(&event, "claimed").await?;
        self.probe.findings.judge(
            "runtime.route.one_winner",
            holds,
            format!("a task_complete of {event} by {}", self.other),
            order,
            "the task is still claimed, at the node that it went to",
        );
        let end = json!({ "completedByAgentId": self.doer, "resultSummary": "done", "completedAt": now() });
        self.step(&self.probe.main, "task_complete", &event, end)
            .await
    }

    async fn step(&self, node: &Gateway, kind: &str, task: &Value, mut payload: Value) -> Told {
        payload["taskId"] = task["payload"]["taskId"].clone();
        let by = ["acceptedByAgentId", "completedByAgentId", "failedByAgentId"];
        let by = by.into_iter().find_map(|name| payload[name].as_str());
        let by = by.unwrap_or(&self.doer).to_owned();
        let corr = task["corrId"].clone();
        let told = node.publish(kind, &by, payload, |event| {
            event.insert("corrId".to_owned(), corr);
        });
        told.await.map(drop)
    }

    async fn becomes(&self, event: &Value, state: &str) -> Result<(bool, Value), Stop> {
        let id = &event["eventId"];
        self.probe
            .eventually(
                async || self.probe.order(id).await,
                |order| order["state"] == state,
            )
            .await
    }

    async fn judge_order(
        &self,
        clause: &'static str,
        event: &Value,
        sent: &str,
        state: &str,
    ) -> Told {
        let (holds, order) = self.becomes(event, state).await?;
        let expected = format!("the order for {} is {state}", event["payload"]["taskId"]);
        self.probe
            .findings
            .judge(clause, holds, sent, order, expected);
        Ok(())
    }

    /// A task that is done, and what is said of it at the wrong time.
    async fn done(&self) -> Told {
        let (probe, main) = (self.probe, &self.probe.main);
        let nobody = probe.name("nobody");
        let payload = self.task(&[&self.doer, &nobody]);
        let answer = self.ask(payload.clone()).await?.expect(201)?;
        let event = probe.published(&answer).await?;
        probe.findings.answered(
            "runtime.route.explicit_targets",
            answer.body["recipients"] == json!([self.doer]),
            &answer,
            format!("{} alone: {nobody} is nobody", self.doer),
        );
        for (clause, names) in [
            (
                "runtime.task_create.fields",
                &["taskId", "title", "description"][..],
            ),
            (
                "runtime.task_create.routing_fields",
                &["requiredCapabilities"],
            ),
            (
                "runtime.task_create.request_fields",
                &[
                    "priority",
                    "requesterAgentId",
                    "responseRequired",
                    "deadlineAt",
                ],
            ),
        ] {
            let differs = names
                .iter()
                .find(|name| event["payload"][**name] != payload[**name]);
            let expected = format!("{} as it was sent", differs.unwrap_or(&"all"));
            probe
                .findings
                .judge(clause, differs.is_none(), &answer.sent, &event, expected);
        }
        main.ack(&event, "perhaps", &self.doer, json!({})).await?;
        let order = probe.order(&event["eventId"]).await?;
        let state = &order["destinations"][0]["state"];
        probe.findings.judge(
            "runtime.ack.type_enum",
            state == "emitted",
            "an ack of type 'perhaps'",
            &order,
            "it counts for nothing: emitted",
        );
        main.ack(
            &event,
            "accepted",
            &self.doer,
            json!({ "etaAt": IsoTime(now().0 + 600_000) }),
        )
        .await?;
        self.step(
            main,
            "task_accept",
            &event,
            json!({ "acceptedByAgentId": self.doer, "planSummary": "p" }),
        )
        .await?;
        let (_, order) = self.becomes(&event, "accepted").await?;
        probe.findings.judge(
            "runtime.task_accept.eta_required",
            order["state"] == "accepted",
            "a task_accept without etaAt and etaSeconds",
            &order,
            "it counts for nothing: accepted",
        );
        self.step(
            main,
            "task_accept",
            &event,
            json!({ "acceptedByAgentId": self.doer, "planSummary": "p", "etaSeconds": 600 }),
        )
        .await?;
        let revised = IsoTime(now().0 + 1_800_000);
        let update = json!({ "status": "in_progress", "progress": 60, "note": "n", "revisedEtaAt": revised });
        self.step(main, "task_update", &event, update).await?;
        let look = async || probe.order(&event["eventId"]).await;
        let (holds, order) = probe
            .eventually(look, |order| is_about(&order["etaAt"], revised))
            .await?;
        probe.findings.judge(
            "runtime.task_update.revised_eta",
            holds,
            format!("a task_update with revisedEtaAt {revised}"),
            order,
            format!("the order's etaAt is {revised}, by the clock there"),
        );
        let complete = json!({ "completedByAgentId": self.doer, "resultSummary": "done", "completedAt": now() });
        self.step(main, "task_complete", &event, complete).await?;
        self.judge_order(
            "runtime.task_complete.terminal",
            &event,
            "a task_complete",
            "done",
        )
        .await?;
        let failed = json!({ "failedByAgentId": self.doer, "failureClass": "unknown", "errorSummary": "e", "failedAt": now() });
        self.step(main, "task_failed", &event, failed).await?;
        self.judge_order(
            "runtime.task_complete.terminal",
            &event,
            "a task_failed after the end",
            "done",
        )
        .await
    }

    /// One that fails; and an ack that stands for an acceptance.
    async fn failed(&self) -> Told {
        let (probe, main) = (self.probe, &self.probe.main);
        let answer = self.ask(self.task(&[&self.doer])).await?.expect(201)?;
        let event = probe.published(&answer).await?;
        let accepts = json!({
            "taskId": event["payload"]["taskId"], "acceptedByAgentId": self.doer, "etaAt": IsoTime(now().0 + 600_000),
        });
        main.ack(&event, "accepted", &self.doer, accepts).await?;
        let sent = "an accepted ack with taskId, acceptedByAgentId and etaAt";
        self.judge_order("runtime.task_accept.ack_form", &event, sent, "claimed")
            .await?;
        let failed = json!({ "failedByAgentId": self.doer, "failureClass": "unknown", "errorSummary": "e", "failedAt": now() });
        self.step(main, "task_failed", &event, failed).await?;
        self.judge_order(
            "runtime.task_failed.terminal",
            &event,
            "a task_failed",
            "failed",
        )
        .await?;
        let complete = json!({ "completedByAgentId": self.doer, "resultSummary": "done", "completedAt": now() });
        self.step(main, "task_complete", &event, complete).await?;
        self.judge_order(
            "runtime.task_failed.terminal",
            &event,
            "a task_complete after the end",
            "failed",
        )
        .await
    }
}

/// Clocks differ a little, and a node may go by its own.
fn is_about(shown: &Value, at: IsoTime) -> bool {
    let shown = shown.as_str().and_then(|text| text.parse::<IsoTime>().ok());
    shown.is_some_and(|shown| shown.0.abs_diff(at.0) <= 5000)
}
