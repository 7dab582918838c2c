// The client of the Node SDK 1.x, doing what test_real_clients.py expects of each client.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as types from "@modelcontextprotocol/sdk/types.js";

const to = JSON.parse(process.argv[2]);
const { NAME, PROMPT, ROOT, SAMPLED, STEPS } = to.words;
const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
const client = new Client({ name: "node-sdk", version: "1" }, { capabilities });
client.setRequestHandler(types.CreateMessageRequestSchema, () => ({
  role: "assistant", content: { type: "text", text: SAMPLED }, model: "none",
}));
client.setRequestHandler(types.ElicitRequestSchema, () => ({ action: "accept", content: { name: NAME } }));
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: ROOT }] }));

const transport = to.command
  ? new StdioClientTransport({ command: to.command[0], args: to.command.slice(1), env: to.env, stderr: "inherit" })
  : new StreamableHTTPClientTransport(new URL(to.url), {
      requestInit: { headers: { Authorization: `Bearer ${to.token}` } },
    });
await client.connect(transport);
const call = (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, undefined, options);
const steps = [];
const tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
const { uri } = (await client.listResources()).resources[0];
const content = (await client.readResource({ uri })).contents[0];
const prompt = await client.getPrompt({ name: "args-prompt", arguments: { city: "Bern" } });
const onprogress = ({ progress }) => steps.push(progress);
await call("trigger-long-running-operation", { duration: 0.02 * STEPS, steps: STEPS }, { onprogress });
const report = {
  protocol: transport.protocolVersion ?? null,
  tools,
  echo: (await call("echo", { message: "hällo" })).content[0].text,
  failed: (await call("get-structured-content", { location: "Atlantis" })).isError,
  structured: (await call("get-structured-content", { location: "Chicago" })).structuredContent,
  progress: steps,
  sampled: (await call("trigger-sampling-request", { prompt: PROMPT })).content[0].text.includes(SAMPLED),
  elicited: (await call("trigger-elicitation-request")).content[1].text.includes(`Name: ${NAME}`),
  roots: (await call("get-roots-list")).content[0].text.includes(ROOT),
  resource: Boolean(content.text),
  prompt: prompt.messages[0].content.text,
};
if (to.url) await transport.terminateSession();
await client.close();
console.log(JSON.stringify(report));
