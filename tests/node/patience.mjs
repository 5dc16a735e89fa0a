// A transaction that is begun and left alone: others go on, and whoever comes back to it is told.
import assert from "node:assert/strict";
import { createClient } from "@libsql/client";
import { until } from "./statements.mjs";

const open = () => createClient({ url: process.env.JETPACK_DB_URL, authToken: process.env.JETPACK_DB_TOKEN });
const insert = (name) => ({ sql: "INSERT INTO migrations (name) VALUES (?)", args: [name] });

const left = await open().transaction("write");
await left.execute(insert("left alone"));
await until("the other one writes", async () => {
  try {
    await open().execute(insert("other"));
    return true;
  } catch (error) {
    assert.equal(error.code, "SQLITE_BUSY");
    return false;
  }
});
await assert.rejects(left.commit(), (error) => {
  assert.equal(error.code, "STREAM_EXPIRED");
  assert.match(error.message, /rolled back/);
  return true;
});
const { rows } = await open().execute("SELECT name FROM migrations WHERE name IN ('left alone', 'other')");
assert.deepEqual(rows.map((row) => row.name), ["other"]);
console.log("done");
