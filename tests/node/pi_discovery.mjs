// Pi's own search for extensions: the paths that it finds, in the order in which it loads them.
//
// Start: node pi_discovery.mjs <path of loader.js> <project> <agent folder> [configured path ...].
import { pathToFileURL } from "node:url";

const [loader, project, agent, ...configured] = process.argv.slice(2);
const { discoverAndLoadExtensions } = await import(pathToFileURL(loader).href);
const { extensions, errors } = await discoverAndLoadExtensions(configured, project, agent);
process.stdout.write(JSON.stringify({ found: extensions.map((one) => one.path), errors }));
