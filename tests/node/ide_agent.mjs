// An agent at the websocket of an editor, with the official SDK's client: finds the editor by its lock file, looks at what
// is selected, proposes a text and prints what it was told, a JSON line each.
//
//   node ide_agent.mjs FOLDER_OF_LOCKS FILE TEXT

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js'

const [folder, file, text] = process.argv.slice(2)
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n')

const [name] = readdirSync(folder).filter((each) => each.endsWith('.lock'))
const lock = JSON.parse(readFileSync(join(folder, name)))

// The SDK's transport takes no headers; the platform's WebSocket does.
const Plain = globalThis.WebSocket
let headers = {}
globalThis.WebSocket = class extends Plain {
  constructor(url, protocols) {
    super(url, { protocols, headers })
  }
}

const connect = async () => {
  const client = new Client({ name: 'agent', version: '1' })
  client.fallbackNotificationHandler = async (note) => say({ note: note.method, params: note.params })
  await client.connect(new WebSocketClientTransport(new URL(`ws://127.0.0.1:${name.split('.')[0]}/`)))
  return client
}

try {
  await connect()
  say({ refused: false })
} catch {
  say({ refused: true })
}
headers = { 'x-claude-code-ide-authorization': lock.authToken }
const client = await connect()
const { tools } = await client.listTools()
say({ tools: tools.map((tool) => tool.name) })
const selected = await client.callTool({ name: 'getCurrentSelection', arguments: {} })
say({ selected: JSON.parse(selected.content[0].text) })
const proposal = { old_file_path: file, new_file_path: file, new_file_contents: text, tab_name: 'one' }
const verdict = await client.callTool({ name: 'openDiff', arguments: proposal })
say({ verdict: verdict.content.map((block) => block.text) })
await client.close()
