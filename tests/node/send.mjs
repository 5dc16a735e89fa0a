// The send client's contract, step by step, as the scripts of SquidRun keep it: waits for each answer, the same id at
// each attempt, a delivery check, and at last a trigger file.
//
//     node send.mjs <target> <role> <message id> <content>
//
// Port from HM_SEND_PORT, project from HM_SEND_PROJECT. Prints what it did as one line of JSON.
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import WebSocket from "ws";

const [target, role, messageId, content] = process.argv.slice(2);
const port = process.env.HM_SEND_PORT ?? "9900";
const WELCOME_MS = 3000;
const REGISTERED_MS = 3000;
const HEALTH_MS = 500;
const ACK_MS = 8500;
const ATTEMPTS = 4;
const FINAL = ["invalid_target", "submit_not_accepted"];
const NO_FILE = /^(user|telegram|builder-bg-\d)$/;

class Connection {
  constructor() {
    this.frames = [];
    this.wakes = [];
    this.socket = new WebSocket(`ws://127.0.0.1:${port}`);
    const wake = () => this.wakes.splice(0).forEach((wake) => wake());
    this.socket.on("message", (data) => {
      this.frames.push(JSON.parse(data.toString()));
      wake();
    });
    this.socket.on("error", () => {});
    this.socket.on("close", () => {
      this.closed = true;
      wake();
    });
  }

  send(frame) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  // The frame, or nothing if it does not come in time.
  async expect(fits, ms) {
    const until = Date.now() + ms;
    for (;;) {
      const at = this.frames.findIndex(fits);
      if (at >= 0) return this.frames.splice(at, 1)[0];
      const left = until - Date.now();
      if (this.closed || left <= 0) return undefined;
      await Promise.race([new Promise((wake) => this.wakes.push(wake)), sleep(left, undefined, { ref: false })]);
    }
  }
}

async function connect() {
  const connection = new Connection();
  if (!(await connection.expect((frame) => frame.type === "welcome", WELCOME_MS))) return undefined;
  connection.send({ type: "register", role });
  if (!(await connection.expect((frame) => frame.type === "registered", REGISTERED_MS))) return undefined;
  return connection;
}

const did = { attempts: 0, acks: [], health: null, check: null, file: null };

async function attempt(number) {
  const connection = await connect();
  if (!connection) return undefined;
  connection.send({ type: "health-check", target, requestId: `h-${number}`, staleAfterMs: 60000 });
  const health = await connection.expect((frame) => frame.type === "health-check-result", HEALTH_MS);
  did.health = health?.status ?? null;
  connection.send({
    type: "send", target, content, priority: "normal", metadata: { envelope_version: "hm-envelope-v1" }, messageId,
    ackRequired: true, attempt: number, maxAttempts: ATTEMPTS,
  });
  const ack = await connection.expect((frame) => frame.type === "send-ack" && frame.messageId === messageId, ACK_MS);
  connection.socket.close();
  return ack;
}

async function check() {
  const connection = await connect();
  if (!connection) return undefined;
  connection.send({ type: "delivery-check", requestId: "d-1", messageId });
  const result = await connection.expect((frame) => frame.type === "delivery-check-result", ACK_MS);
  connection.socket.close();
  return result;
}

async function fallBack(forced) {
  if (NO_FILE.test(target)) return;
  const triggers = join(process.env.HM_SEND_PROJECT, ".squidrun", "triggers");
  mkdirSync(triggers, { recursive: true });
  const half = join(triggers, `.${target}.txt.${process.pid}`);
  writeFileSync(half, `[HM-MESSAGE-ID:${messageId}]\n${content}\n[PROJECT CONTEXT] name=demo | path=${process.env.HM_SEND_PROJECT}\n`);
  renameSync(half, join(triggers, `${target}.txt`));
  did.file = `${target}.txt`;
  if (!forced) return;
  const connection = await connect();
  connection?.send({
    type: "comms-event", eventType: "comms.delivery.failed",
    payload: { messageId, target, role, attempts: did.attempts, fallbackUsed: true },
  });
  connection?.socket.close();
}

async function run() {
  for (let number = 1; number <= ATTEMPTS; number += 1) {
    did.attempts = number;
    const ack = await attempt(number);
    if (!ack) continue;
    did.acks.push(ack.status);
    if (ack.ok) return "delivered";
    if (ack.accepted) {
      // Not verified: the file as well, under the same id.
      if (/unverified|pending|routed/.test(ack.status)) await fallBack(false);
      return "accepted";
    }
    if (FINAL.includes(ack.status)) break;
  }
  did.check = (await check()) ?? null;
  if (did.check?.known && did.check.ack.accepted) return "delivered after all";
  await fallBack(true);
  return did.file ? "by file" : "failed";
}

did.outcome = await run();
console.log(JSON.stringify(did));
process.exit(0);
