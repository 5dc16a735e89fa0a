//! Leases.

use serde_json::{Value, json};

use super::refusal;
use super::{Answered, No, Play, distance, named, or, text};
use crate::scenarios::act::Call;

impl Play {
    /// Paths are written plainly here.
    pub(super) async fn acquire(&mut self, call: &Call) -> Option<Answered> {
        is_plain(text(call, "filePath")?).then_some(())?;
        Some(self.lease(call).await)
    }

    async fn lease(&mut self, call: &Call) -> Answered {
        let (agent, path) = (named(call, "agentId"), named(call, "filePath"));
        let task = or(call, "taskId", Value::Null);
        let lasts = call.given["durationMs"]
            .as_i64()
            .expect("a lease has a term");
        let given = json!({"agent": agent, "path": path, "task": task, "lasts": distance(lasts)});
        let ran = match self.run("acquire_lease", given).await {
            Ok(ran) => ran,
            // Whose it is instead is for others to tell.
            Err(No::Refused(body)) if refusal::is_vague(&body) => return Err(No::Row),
            Err(no) => return Err(no),
        };
        if ran[0].rows.is_empty() {
            return Err(No::Row);
        }
        let listed = self
            .stage
            .get("listLeases", None, json!({"agentId": agent}))
            .await;
        let leases = listed["leases"].as_array().into_iter().flatten();
        let mut mine = leases.filter(|lease| lease["filePath"] == path.as_str());
        let lease = mine.next().expect("what was granted is listed");
        Ok(json!({"success": true, "lease": lease}))
    }

    /// Fencing tokens are for those who keep files, not for this table.
    pub(super) async fn unlease(&mut self, call: &Call) -> Option<Answered> {
        if call.given.contains_key("fencingToken") || !is_plain(text(call, "filePath")?) {
            return None;
        }
        Some(self.let_lease_go(call).await)
    }

    async fn let_lease_go(&mut self, call: &Call) -> Answered {
        let (agent, path) = (named(call, "agentId"), named(call, "filePath"));
        let given = json!({"agent": agent, "path": path});
        let ran = self.run("release_lease", given).await?;
        if ran[0].changed == 0 {
            return Err(No::Row);
        }
        Ok(json!({"success": true, "released": true}))
    }
}

fn is_plain(path: &str) -> bool {
    let odd = |c: char| "*?{[\\".contains(c);
    !path.contains(odd)
        && !path.starts_with('/')
        && path.split('/').all(|part| !["", ".", ".."].contains(&part))
}
