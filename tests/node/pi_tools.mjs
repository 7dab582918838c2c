// Pi's own built-in tools behind a pipe: one call a line in, one result a line out.
//
// Start: node pi_tools.mjs <path of Pi's tools/index.js>. A call is {tool, cwd, input}; a result is what the tool gave, or
// {error} with the words that it threw.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const pi = await import(pathToFileURL(process.argv[2]).href);
const makers = {
  read: pi.createReadTool, write: pi.createWriteTool, edit: pi.createEditTool, bash: pi.createBashTool,
  grep: pi.createGrepTool, find: pi.createFindTool, ls: pi.createLsTool,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { tool: name, cwd, input } = JSON.parse(line);
  let answer;
  try {
    const tool = makers[name](cwd);
    const prepared = tool.prepareArguments ? tool.prepareArguments(input) : input;
    answer = { ok: await tool.execute("call-1", prepared) };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
