// The frames of `background-agent`, as the background script of SquidRun sends them: on a connection of its own each.
import assert from "node:assert/strict";
import WebSocket from "ws";

let number = 0;

function ask(role, action, payload = {}) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(process.env.BROKER_URL);
    const requestId = `bg-${Date.now()}-${++number}`;
    socket.on("error", reject);
    socket.on("message", (data) => {
      const frame = JSON.parse(data.toString());
      if (frame.type === "welcome") {
        socket.send(JSON.stringify({ type: "register", role }));
      } else if (frame.type === "registered") {
        socket.send(JSON.stringify({ type: "background-agent", action, payload, requestId }));
      } else if (frame.type === "response" && frame.requestId === requestId) {
        assert.equal(frame.ok, true);
        socket.close();
        resolve(frame.result);
      }
    });
  });
}

const spawned = await ask("builder", "spawn", { slot: 2 });
assert.equal(spawned.ok, true);
assert.equal(spawned.accepted, true);
assert.equal(spawned.alias, "builder-bg-2");
assert.equal(spawned.paneId, "bg-2-2");
assert.equal(spawned.ownerPaneId, "2");
assert.equal(spawned.status, "starting");
const list = await ask("builder", "list");
assert.deepEqual(list.agents.map((agent) => agent.alias), ["builder-bg-2"]);
const map = await ask("builder", "target-map");
assert.deepEqual(map.targetMap, list.targetMap);
assert.deepEqual(map.targetMap.aliases, ["builder-bg-1", "builder-bg-2", "builder-bg-3"]);
const refused = await ask("oracle", "kill", { alias: "builder-bg-2" });
assert.equal(refused.status, "owner_binding_violation");
assert.equal(refused.senderPaneId, "3");
const killed = await ask("builder", "kill", { alias: "builder-bg-2" });
assert.equal(killed.ok, true);
assert.equal((await ask("builder", "kill", { slot: 2 })).reason, "not_running");
await ask("builder", "spawn");
await ask("builder", "spawn");
const all = await ask("builder", "kill-all");
assert.equal(all.killed, 2);
assert.deepEqual((await ask("builder", "list")).agents, []);
console.log("all actions");
