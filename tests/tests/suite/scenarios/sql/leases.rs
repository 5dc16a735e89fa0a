//! Leases.

use serde_json::{Value, json};

use super::refusal;
use super::{Answered, No, Play, distance, named, or};
use crate::scenarios::act::Call;

impl Play {
    pub(super) async fn acquire(&mut self, call: &Call) -> Answered {
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
        let normal = "SELECT coalesce(path, file_path) AS path FROM leases WHERE file_path = ?";
        let normal = self.row(normal, [&path]).expect("it keeps its spelling");
        let mut mine = leases.filter(|lease| lease["filePath"] == normal["path"]);
        let lease = mine.next().expect("what was granted is listed");
        Ok(json!({"success": true, "lease": lease}))
    }

    /// Fencing tokens are for those who keep files, not for this table.
    pub(super) async fn unlease(&mut self, call: &Call) -> Option<Answered> {
        if call.given.contains_key("fencingToken") {
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
