// Tells what the client makes of a database that does not let it in.
import { createClient } from "@libsql/client";

const db = createClient({ url: process.env.JETPACK_DB_URL, authToken: process.env.JETPACK_DB_TOKEN });
try {
  await db.execute("SELECT 1");
  console.log(JSON.stringify({ code: null }));
} catch (error) {
  console.log(JSON.stringify({ code: error.code, message: error.message }));
}
