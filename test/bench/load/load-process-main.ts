import { createResponseCheck } from './response-check.ts'
import type { ExpectedResponse } from './response-check.ts'
import { LoadGenerator } from './load-generator.ts'
import type { LoadOptions } from './load-generator.ts'
import { openHttpConnection } from './http-connection.ts'
import type { LoadConnection } from './connections.ts'
import { openWebSocketConnection } from './websocket-connection.ts'

// The process that calls. Orders come over IPC and are carried out one after another or side by side, as they come.

/** Connections that wait with their call: opened once, used for several runs. */
export interface OpenCommand {
  readonly kind: 'open'
  readonly url: string
  /** How many; the URL's scheme says whether they are HTTP connections or WebSockets. */
  readonly connections: number
  /** With `#id#`, `#hex#` and `#some#` where they belong. */
  readonly body: string
  readonly expected: ExpectedResponse
}

/** What this process does; the answer to `open` names the session, that to `run` is a Loaded. */
export type LoadCommand =
  | OpenCommand
  | { readonly kind: 'run'; readonly session: number; readonly options: LoadOptions }
  | { readonly kind: 'close'; readonly session: number }

/** Connections that are being opened at once: fewer than any server lets wait to be accepted. */
const maxOpening = 64

const loadSessions: { drive: LoadGenerator; lines: readonly LoadConnection[] }[] = []

const openSession = async ({ url, connections: count, body: message, expected }: OpenCommand): Promise<number> => {
  const generator = new LoadGenerator(message, createResponseCheck(expected))
  const serverUrl = new URL(url)
  const openConnection = serverUrl.protocol === 'ws:' ? openWebSocketConnection : openHttpConnection
  const connections: LoadConnection[] = []
  while (connections.length < count) {
    const next = Array.from({ length: Math.min(maxOpening, count - connections.length) }, () => openConnection(serverUrl, generator))
    connections.push(...(await Promise.all(next)))
  }
  generator.setConnections(connections)
  return loadSessions.push({ drive: generator, lines: connections }) - 1
}

const execute = (command: LoadCommand): unknown => {
  if (command.kind === 'open') return openSession(command)
  const session = loadSessions[command.session]
  if (command.kind === 'run') return session?.drive.run(command.options)
  for (const line of session?.lines ?? []) line.close()
  return undefined
}

process.on('message', async ({ id, order }: { id: number; order: LoadCommand }) => {
  try {
    process.send?.({ id, value: await execute(order) })
  } catch (fault) {
    process.send?.({ id, fault: (fault as Error).message })
  }
})
process.on('disconnect', () => process.exit())
