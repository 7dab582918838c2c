// Pi's own session manager behind a pipe: one question a line in, one answer a line out.
//
// Start: node pi_sessions.mjs <path of session-manager.js>. `read` opens a file and tells what is in it; `write` makes
// a session out of a list of steps. Entries are named by their place in the list of ids that `write` gives back.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { SessionManager } = await import(pathToFileURL(process.argv[2]).href);

function told(manager) {
  const entries = manager.getEntries();
  return {
    header: manager.getHeader(),
    file: manager.getSessionFile(),
    entries,
    leaf: manager.getLeafId(),
    branch: manager.getBranch().map((entry) => entry.id),
    tree: manager.getTree(),
    labels: Object.fromEntries(entries.map((entry) => [entry.id, manager.getLabel(entry.id)])),
    name: manager.getSessionName() ?? null,
    context: manager.buildSessionContext(),
    contextEntries: manager.buildContextEntries ? manager.buildContextEntries().map((entry) => entry.id) : null,
  };
}

function step(manager, ids, one) {
  const id = (index) => (index === null ? null : ids[index]);
  switch (one.op) {
    case "message": return manager.appendMessage(one.message);
    case "custom": return manager.appendCustomEntry(one.kind, one.data);
    case "custom_message": return manager.appendCustomMessageEntry(one.kind, one.content, one.display, one.details);
    case "label": return manager.appendLabelChange(id(one.target), one.label ?? undefined);
    case "name": return manager.appendSessionInfo(one.name);
    case "model": return manager.appendModelChange(one.provider, one.model);
    case "thinking": return manager.appendThinkingLevelChange(one.level);
    case "usage": return manager.appendUsage(one.kind, one.provider, one.model, one.usage).id;
    case "compaction":
      return manager.appendCompaction(one.summary, id(one.first), one.tokens, one.details, one.hook ? true : undefined);
    case "summary":
      return manager.branchWithSummary(id(one.onto), one.summary, one.details, one.hook ? true : undefined);
    case "edit":
      return manager.appendContextEdit(id(one.target), one.content === null ? null : { content: one.content });
    case "move": {
      if (one.to === null) manager.resetLeaf();
      else manager.branch(id(one.to));
      return null;
    }
    case "fork": {
      manager.createBranchedSession(id(one.at));
      return null;
    }
    default: throw new Error(`no step ${one.op}`);
  }
}

function write(question) {
  const manager = question.dir
    ? SessionManager.create(question.cwd, question.dir)
    : SessionManager.inMemory(question.cwd ?? "/work");
  const ids = [];
  const refused = [];
  question.steps.forEach((one, index) => {
    try {
      const made = step(manager, ids, one);
      if (made !== null) ids.push(made);
    } catch (error) {
      refused.push([index, error.message]);
    }
  });
  return { ids, refused, ...told(manager) };
}

function answer(question) {
  switch (question.ask) {
    case "read": return told(SessionManager.open(question.path));
    case "write": return write(question);
    case "spell": return question.lines.map((line) => JSON.stringify(JSON.parse(line)));
    default: throw new Error(`no question ${question.ask}`);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = { ok: answer(JSON.parse(line)) };
  } catch (error) {
    said = { error: error.message };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
