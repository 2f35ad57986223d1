import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a scripted node answers to one request. */
export type ScriptedResponse =
  | { readonly result: unknown }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }
  /** These very bytes, whatever they are. With `then` the answer breaks off: the node hangs or hangs up after them. */
  | {
      readonly raw: string | Uint8Array
      readonly status?: number
      readonly headers?: http.OutgoingHttpHeaders
      readonly then?: 'hang' | 'close'
    }
  /** Never answers. */
  | 'hang'
  /** Closes the connection without an answer. */
  | 'close'

/** One request as the node got it. */
export interface ReceivedRequest {
  readonly id: unknown
  readonly method: string
  readonly params: readonly unknown[]
  readonly text: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
}

/** A fixed answer, or a function that may wait for whatever a test wants before it gives one. */
export type ResponseScript = ScriptedResponse | ((request: ReceivedRequest) => ScriptedResponse | Promise<ScriptedResponse>)

/** A node that answers what a test tells it; unknown methods are refused with -32601. */
export interface FakeNode {
  readonly url: string
  /** Oldest first. */
  readonly received: readonly ReceivedRequest[]
  /** Replaces what the method is answered from now on. */
  setResponse(method: string, answering: ResponseScript): void
  /** Resolves once this many requests for the method have come in, counted from the beginning. */
  waitForRequests(method: string, count: number): Promise<void>
  /** Answers nobody any more; new connections are refused. */
  stop(): Promise<void>
}

export const startFakeNode = async (answers: Readonly<Record<string, ResponseScript>> = {}): Promise<FakeNode> => {
  const script = new Map(Object.entries(answers))
  const received: ReceivedRequest[] = []
  const server = http.createServer(async (request, response) => {
    const asked = await readRequest(request)
    received.push(asked)
    server.emit('asked')
    const answering = script.get(asked.method) ?? methodNotFound
    sendScripted(response, asked.id, typeof answering === 'function' ? await answering(asked) : answering)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    setResponse: (method, answering) => void script.set(method, answering),
    async waitForRequests(method, count) {
      while (received.filter(each => each.method === method).length < count) await once(server, 'asked')
    },
    async stop() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

const methodNotFound: ScriptedResponse = { error: { code: -32601, message: 'the method does not exist/is not available' } }

const readRequest = async (request: http.IncomingMessage): Promise<ReceivedRequest> => {
  const chunks: Buffer[] = await request.toArray()
  const text = Buffer.concat(chunks).toString()
  const { id, method, params = [] } = JSON.parse(text)
  return { id, method, params, text, path: request.url ?? '', headers: request.headers }
}

const sendScripted = (response: http.ServerResponse, id: unknown, script: ScriptedResponse): void => {
  if (script === 'hang') return
  if (script === 'close') return void response.destroy()
  if (!('raw' in script)) return writeResponse(response, Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, ...script })))
  const { raw, status, headers, then } = script
  writeResponse(response, Buffer.from(raw), status, headers, then)
}

const writeResponse = (
  response: http.ServerResponse,
  body: Buffer,
  status = 200,
  headers: http.OutgoingHttpHeaders = {},
  then?: 'hang' | 'close',
): void => {
  // An answer that breaks off promised more than it gives.
  const length = then === undefined ? body.length : body.length + 1
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': length, ...headers })
  if (then === undefined) return void response.end(body)
  response.write(body, () => {
    if (then === 'close') response.destroy()
  })
}
