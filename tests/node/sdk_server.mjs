// A small server on the Node SDK 1.x: on stdio, or with `http` on a free port, whose address it prints.
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

function make() {
  const server = new McpServer({ name: "node-sdk-server", version: "1.0.0" });
  server.registerTool(
    "add",
    { description: "Adds", inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }], structuredContent: { sum: a + b } }),
  );
  server.registerTool("ask", { description: "Asks the user" }, async () => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } } };
    const answer = await server.server.elicitInput({ message: "Who are you?", requestedSchema });
    return { content: [{ type: "text", text: `Hello, ${answer.content?.name}!` }] };
  });
  server.registerResource("note", "note://one", {}, (uri) => ({ contents: [{ uri: uri.href, text: "A note" }] }));
  server.registerPrompt("greet", { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }],
  }));
  return server;
}

if (process.argv[2] !== "http") {
  await make().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const web = createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => crypto.randomUUID(), onsessioninitialized });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  web.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ address: `http://127.0.0.1:${web.address().port}/mcp` })));
  process.stdin.on("end", () => process.exit(0)).resume();
}
