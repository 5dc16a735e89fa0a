// The statements of docs/direct-sql.md by their names, so that what is tested is what is published.
import { readFileSync } from "node:fs";

const page = readFileSync(new URL("../../docs/direct-sql.md", import.meta.url), "utf8");

/** The statements of one block, each by itself. */
export function statements(name) {
  const found = page.match(new RegExp(`<!-- sql: ${name} -->\\n+\`\`\`sql\\n([^]*?)\`\`\``));
  if (!found) throw new Error(`docs/direct-sql.md has no statement ${name}`);
  return found[1].split(";").map((sql) => sql.trim()).filter((sql) => sql !== "");
}

/** Statements with those of `values` that each of them names. */
export function bound(name, values) {
  return statements(name).map((sql) => {
    const names = [...new Set([...sql.matchAll(/:([A-Za-z_]\w*)/g)].map(([, word]) => word))];
    return { sql, args: Object.fromEntries(names.map((word) => [word, values[word] ?? null])) };
  });
}

/** Looks until there is something. */
export async function until(what, look) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
  }
}

/** One transaction, begun anew for as long as it is rolled back to let others write. */
export async function transaction(db, mode, work) {
  return until(`a transaction (${mode})`, async () => {
    const open = await db.transaction(mode);
    try {
      const result = await work(open);
      await open.commit();
      return { result };
    } catch (error) {
      if (!["SQLITE_BUSY", "SQLITE_INTERRUPT", "STREAM_EXPIRED"].includes(error.code)) throw error;
      return undefined;
    } finally {
      open.close();
    }
  });
}
