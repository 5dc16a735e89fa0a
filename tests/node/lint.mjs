// Redocly's linter on an OpenAPI document; its rules and their exceptions are in ../openapi/redocly.yaml.
import { formatProblems, getTotals, lint, loadConfig } from "@redocly/openapi-core";

const [document, configPath] = process.argv.slice(2);
const config = await loadConfig({ configPath });
const problems = await lint({ ref: document, config });
formatProblems(problems, { format: "stylish", totals: getTotals(problems), version: "" });
process.exitCode = problems.length > 0 ? 1 : 0;
