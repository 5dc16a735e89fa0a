// The frames that the send and background scripts of SquidRun use, with the WebSocket client that they use.
import assert from "node:assert/strict";
import WebSocket from "ws";

const url = process.env.BROKER_URL;

class Client {
  static async open() {
    const client = new Client();
    client.frames = [];
    client.waiting = [];
    client.socket = new WebSocket(url);
    client.socket.on("message", (data) => {
      client.frames.push(JSON.parse(data.toString()));
      client.waiting.splice(0).forEach((wake) => wake());
    });
    await new Promise((resolve, reject) => client.socket.once("open", resolve).once("error", reject));
    await client.expect((frame) => frame.type === "welcome" && frame.clientId > 0);
    return client;
  }

  static async as(role) {
    const client = await Client.open();
    client.send({ type: "register", role });
    client.registered = await client.expect((frame) => frame.type === "registered");
    return client;
  }

  send(frame) {
    this.socket.send(JSON.stringify(frame));
  }

  async expect(fits) {
    for (;;) {
      const at = this.frames.findIndex(fits);
      if (at >= 0) return this.frames.splice(at, 1)[0];
      await new Promise((wake) => this.waiting.push(wake));
    }
  }

  async ask(frame, type) {
    this.send(frame);
    return this.expect((answer) => answer.type === type);
  }
}

const builder = await Client.as("devops");
assert.deepEqual(builder.registered, { type: "registered", paneId: "2", role: "builder" });
const architect = await Client.as("architect");

const health = await architect.ask({ type: "health-check", target: "builder", requestId: "h1", staleAfterMs: 60000 }, "health-check-result");
assert.equal(health.status, "healthy");
assert.equal(health.paneId, "2");

const send = {
  type: "send", target: "builder", content: "(ARCH #1): [ACK REQUIRED] hello", priority: "normal",
  metadata: { envelope_version: "hm-envelope-v1" }, messageId: "hm-1", ackRequired: true, attempt: 1, maxAttempts: 4,
};
const ack = await architect.ask(send, "send-ack");
assert.equal(ack.status, "delivered.websocket");
assert.ok(ack.ok && ack.accepted && ack.verified);
const message = await builder.expect((frame) => frame.type === "message");
assert.equal(message.content, send.content);
assert.equal(message.traceId, "hm-1");
assert.deepEqual(await architect.ask({ ...send, attempt: 2 }, "send-ack"), ack);

builder.send({ type: "receipt", traceId: "hm-1" });
for (;;) {
  const check = await architect.ask({ type: "delivery-check", requestId: "d1", messageId: "hm-1" }, "delivery-check-result");
  assert.equal(check.known, true);
  if (check.ack.status === "delivered.verified") break;
}

const cast = await architect.ask({ type: "broadcast", content: "(ARCH #2): roll call", messageId: "hm-2", ackRequired: true }, "send-ack");
assert.equal(cast.accepted, true);
assert.equal((await builder.expect((frame) => frame.type === "broadcast")).content, "(ARCH #2): roll call");

const refused = await architect.ask({ ...send, target: "nobody", messageId: "hm-3" }, "send-ack");
assert.equal(refused.status, "invalid_target");
const response = await builder.ask({ type: "evidence-ledger", requestId: "r1" }, "response");
assert.equal(response.result.status, "unsupported_action");
architect.send({ type: "comms-event", eventType: "comms.delivery.failed", payload: { fallbackUsed: true } });

// A binary frame is read as text, noise is ignored, a frame that is too large is refused; the connection goes on.
builder.socket.send(Buffer.from("no json"));
builder.socket.send(Buffer.from(JSON.stringify({ type: "health-check", target: "3", requestId: "h2" })));
assert.equal((await builder.expect((frame) => frame.requestId === "h2")).status, "no_route");
builder.socket.send("x".repeat(256 * 1024 + 1));
assert.equal((await builder.expect((frame) => frame.type === "error")).message, "Message too large");

for (const client of [architect, builder]) {
  const closed = new Promise((resolve) => client.socket.once("close", resolve));
  client.socket.close();
  assert.equal(await closed, 1005);
}
console.log("all frames");
