import { LoadGenerator } from './load-generator.ts'
import type { LoadOptions, RequestTemplate } from './load-generator.ts'
import { openHttpConnection, openWebSocketConnection } from './connections.ts'
import type { LoadConnection } from './connections.ts'

// The process that generates load. It runs the commands that it receives over IPC, concurrently.

/** Opens the connections of a session, which serve several runs. */
export interface OpenCommand {
  readonly kind: 'open'
  readonly url: string
  /** Number of connections; the scheme of the URL says whether they are HTTP connections or WebSockets. */
  readonly connections: number
  /** Kinds of calls, which are sent in turn. */
  readonly requests: readonly RequestTemplate[]
  /** API keys that follow the path of the URL, in turn; HTTP only. */
  readonly keys?: readonly string[]
}

/** A command of the benchmark. `open` returns the number of the session, `run` a LoadResult. */
export type LoadCommand =
  | OpenCommand
  | { readonly kind: 'run'; readonly session: number; readonly options: LoadOptions }
  | { readonly kind: 'close'; readonly session: number }

/** Connections that are opened concurrently: fewer than the accept backlog of any server. */
const maxOpening = 64

const loadSessions: { generator: LoadGenerator; connections: readonly LoadConnection[] }[] = []

const openSession = async ({ url, connections: count, requests, keys }: OpenCommand): Promise<number> => {
  const generator = new LoadGenerator(requests)
  const serverUrl = new URL(url)
  const openConnection = serverUrl.protocol === 'ws:' ? openWebSocketConnection : openHttpConnection
  const connections: LoadConnection[] = []
  while (connections.length < count) {
    const next = Array.from({ length: Math.min(maxOpening, count - connections.length) }, () => openConnection(serverUrl, generator, keys))
    connections.push(...(await Promise.all(next)))
  }
  generator.setConnections(connections)
  return loadSessions.push({ generator, connections }) - 1
}

const execute = (command: LoadCommand): unknown => {
  if (command.kind === 'open') return openSession(command)
  const session = loadSessions[command.session]
  if (command.kind === 'run') return session?.generator.run(command.options)
  for (const connection of session?.connections ?? []) connection.close()
  return undefined
}

process.on('message', async ({ id, command }: { id: number; command: LoadCommand }) => {
  try {
    process.send?.({ id, value: await execute(command) })
  } catch (error) {
    process.send?.({ id, error: (error as Error).message })
  }
})
process.on('disconnect', () => process.exit())
