import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a scripted node answers to one request. */
export type Script =
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
export interface Received {
  readonly id: unknown
  readonly method: string
  readonly params: readonly unknown[]
  readonly text: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
}

/** A fixed answer, or a function that may wait for whatever a test wants before it gives one. */
export type Answering = Script | ((request: Received) => Script | Promise<Script>)

/** A node that answers what a test tells it; unknown methods are refused with -32601. */
export interface FakeNode {
  readonly url: string
  /** Oldest first. */
  readonly received: readonly Received[]
  /** Replaces what the method is answered from now on. */
  answer(method: string, answering: Answering): void
  /** Resolves once this many requests for the method have come in, counted from the beginning. */
  reached(method: string, count: number): Promise<void>
  /** Answers nobody any more; new connections are refused. */
  stop(): Promise<void>
}

export const startNode = async (answers: Readonly<Record<string, Answering>> = {}): Promise<FakeNode> => {
  const script = new Map(Object.entries(answers))
  const received: Received[] = []
  const server = http.createServer(async (request, response) => {
    const asked = await read(request)
    received.push(asked)
    server.emit('asked')
    const answering = script.get(asked.method) ?? unknown
    reply(response, asked.id, typeof answering === 'function' ? await answering(asked) : answering)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    answer: (method, answering) => void script.set(method, answering),
    async reached(method, count) {
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

const unknown: Script = { error: { code: -32601, message: 'the method does not exist/is not available' } }

const read = async (request: http.IncomingMessage): Promise<Received> => {
  const chunks: Buffer[] = await request.toArray()
  const text = Buffer.concat(chunks).toString()
  const { id, method, params = [] } = JSON.parse(text)
  return { id, method, params, text, path: request.url ?? '', headers: request.headers }
}

const reply = (response: http.ServerResponse, id: unknown, script: Script): void => {
  if (script === 'hang') return
  if (script === 'close') return void response.destroy()
  if (!('raw' in script)) return answerWith(response, Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, ...script })))
  const { raw, status, headers, then } = script
  answerWith(response, Buffer.from(raw), status, headers, then)
}

const answerWith = (
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
