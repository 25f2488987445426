// Calls one function of a TypeScript tool file: npx tsx call.ts FILE FUNCTION
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

async function main(file: string, name: string): Promise<void> {
  const data = process.env.LLM_TOOL_DATA_FILE!;
  const parameters = join(dirname(data), "parameters");
  const names: string[] = JSON.parse(readFileSync(parameters, "utf8"));
  rmSync(parameters); // the sign that node and tsx are here
  delete process.env.npm_config_yes; // they kept npx from installing; the tool may want to
  delete process.env.npm_config_offline;

  const given = JSON.parse(readFileSync(data, "utf8"));
  const module = await import(pathToFileURL(file).href);
  const call = module[name] ?? module.default?.[name];
  if (typeof call !== "function") throw new Error(`${file} exports no function '${name}'`);
  const result = await call(...names.map((each) => (Object.hasOwn(given, each) ? given[each] : undefined)));
  if (result !== undefined && result !== null) {
    writeFileSync(process.env.LLM_OUTPUT!, typeof result === "string" ? result : textOf(result));
  }
}

function textOf(result: unknown): string {
  return JSON.stringify(result) ?? String(result);
}

main(process.argv[2], process.argv[3]).then(
  () => process.exit(0), // connections kept alive would hold the process
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
