import { spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { createRequire } from 'node:module'

/** A place in a text, as editors count: from 0. */
export interface EditorPosition {
  readonly line: number
  readonly character: number
}

/** The server that YAML editors (VS Code, Neovim, IntelliJ by plugin) run, over its protocol. */
export interface LanguageServer {
  /** Opens a text as the file with this URI, and resolves with the messages that an editor would underline. */
  diagnose(uri: string, text: string): Promise<readonly { readonly message: string; readonly range: { readonly start: EditorPosition } }[]>
  request(method: 'textDocument/hover' | 'textDocument/completion', uri: string, position: EditorPosition): Promise<unknown>
  stop(): Promise<void>
}

/** A message of the protocol, as far as it is read here. */
interface Message {
  readonly id?: number
  readonly method?: string
  readonly result?: unknown
  readonly params?: { readonly uri?: string; readonly items?: readonly unknown[]; readonly diagnostics?: unknown }
}

/** A server that does not answer fails the test. */
const maxWaitMs = 60_000

export const startLanguageServer = async (): Promise<LanguageServer> => {
  const bin = createRequire(import.meta.url).resolve('yaml-language-server/bin/yaml-language-server')
  const child = spawn(process.execPath, [bin, '--stdio'], { stdio: ['pipe', 'pipe', 'ignore'] })
  const events = new EventEmitter()
  const send = (message: object): void => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    child.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }
  let buffer = Buffer.alloc(0)
  child.stdout.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk])
    for (let message = readMessage(); message !== undefined; message = readMessage()) handle(message)
  })
  const readMessage = (): Message | undefined => {
    const headerEnd = buffer.indexOf('\r\n\r\n')
    const length = Number(/Content-Length: (\d+)/i.exec(buffer.subarray(0, Math.max(0, headerEnd)).toString())?.[1])
    if (headerEnd < 0 || buffer.length < headerEnd + 4 + length) return undefined
    const body = buffer.subarray(headerEnd + 4, headerEnd + 4 + length).toString()
    buffer = buffer.subarray(headerEnd + 4 + length)
    return JSON.parse(body) as Message
  }
  const handle = ({ id, method, params, result }: Message): void => {
    if (method === undefined) events.emit(`response ${id}`, result)
    else if (id !== undefined) send({ id, result: method === 'workspace/configuration' ? (params?.items ?? []).map(() => null) : null })
    else if (method === 'textDocument/publishDiagnostics') events.emit(`diagnostics ${params?.uri}`, params?.diagnostics)
  }
  let lastId = 0
  const request = async (method: string, params: object): Promise<unknown> => {
    lastId += 1
    const response = once(events, `response ${lastId}`, { signal: AbortSignal.timeout(maxWaitMs) })
    send({ id: lastId, method, params })
    return (await response)[0]
  }
  await request('initialize', { processId: process.pid, rootUri: null, capabilities: {} })
  send({ method: 'initialized', params: {} })
  const settings = { yaml: { validate: true, hover: true, completion: true, schemaStore: { enable: false } } }
  send({ method: 'workspace/didChangeConfiguration', params: { settings } })
  let version = 0
  return {
    async diagnose(uri, text) {
      version += 1
      const diagnostics = once(events, `diagnostics ${uri}`, { signal: AbortSignal.timeout(maxWaitMs) })
      send({ method: 'textDocument/didOpen', params: { textDocument: { uri, languageId: 'yaml', version, text } } })
      // The protocol's own type of a diagnostic, of which the tests read these members.
      return (await diagnostics)[0] as Awaited<ReturnType<LanguageServer['diagnose']>>
    },
    request: (method, uri, position) => request(method, { textDocument: { uri }, position }),
    async stop() {
      const exited = once(child, 'exit')
      child.kill()
      await exited
    },
  }
}
