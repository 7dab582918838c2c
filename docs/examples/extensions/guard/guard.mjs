// A Pi extension in JavaScript, with Node and no package.
//
// The hook `tool_call` blocks calls of `bash` whose command holds a word of the rules, and gives the others a timeout.
// The tool `guard_rules` tells the rules: those of the file `.guard`, which the host reads, or the usual ones.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const manifest = JSON.parse(readFileSync(new URL("extension.json", import.meta.url), "utf8"));
const USUAL = ["rm -rf", "mkfs", "git push --force"];
const waiting = new Map();

function say(type, id, payload) {
  process.stdout.write(`${JSON.stringify({ id, version: "1.0", type, payload })}\n`);
}

// The rules, by way of the host: only it may say whether this extension reads files, and which.
function rules(about) {
  const callId = `h-${about}`;
  say("host_call", callId, {
    call_id: callId, capability: "read", method: "fs", params: { op: "read", path: ".guard" },
  });
  return new Promise((resolve) => waiting.set(callId, resolve)).then((result) =>
    result.is_error ? USUAL : result.output.content.split("\n").filter((line) => line.trim() !== ""));
}

async function judge(id, { toolName, input }) {
  if (toolName !== "bash" || typeof input.command !== "string") return {};
  const broken = (await rules(id)).find((rule) => input.command.includes(rule));
  if (broken !== undefined) return { block: true, reason: `the command holds \`${broken}\`` };
  return input.timeout === undefined ? { input: { ...input, timeout: 60 } } : {};
}

async function handle({ id, type, payload }) {
  if (type === "host_result") {
    waiting.get(payload.call_id)?.(payload);
    waiting.delete(payload.call_id);
  } else if (type === "tool_call") {
    const text = (await rules(id)).join("\n");
    say("tool_result", id, { call_id: id, output: { content: [{ type: "text", text }] }, is_error: false });
  } else if (type === "event_hook" && payload.event === "tool_call") {
    const result = await judge(id, payload.data);
    say("event_hook", id, { event: "tool_call", data: Object.keys(result).length > 0 ? { result } : {} });
  }
}

say("register", "r", {
  name: manifest.name,
  version: manifest.version,
  api_version: "1.0",
  capability_manifest: manifest.capability_manifest,
  tools: [{ name: "guard_rules", description: "What no command may hold", parameters: { type: "object" } }],
  event_hooks: ["tool_call"],
});
createInterface({ input: process.stdin }).on("line", (line) => handle(JSON.parse(line)));
