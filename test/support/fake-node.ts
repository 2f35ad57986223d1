import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** The response of a fake node to one request. */
export type ScriptedResponse =
  | { readonly result: unknown }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }
  /** Exactly these bytes as the body. With `then` the body is incomplete: the node stalls or closes the connection. */
  | {
      readonly raw: string | Uint8Array
      readonly status?: number
      readonly headers?: http.OutgoingHttpHeaders
      readonly then?: 'hang' | 'close'
    }
  /** No response. */
  | 'hang'
  /** Closes the connection without a response. */
  | 'close'

/** A request that the node has received. */
export interface ReceivedRequest {
  readonly id: unknown
  readonly method: string
  readonly params: readonly unknown[]
  readonly text: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
}

/** A fixed response, or a function that returns one, perhaps later. */
export type ResponseScript = ScriptedResponse | ((request: ReceivedRequest) => ScriptedResponse | Promise<ScriptedResponse>)

/** A node of chain 31337 with scripted responses; other methods than eth_chainId get the error -32601. */
export interface FakeNode {
  readonly url: string
  /** Oldest first. */
  readonly received: readonly ReceivedRequest[]
  /** Sets the response to the method from now on. */
  setResponse(method: string, response: ResponseScript): void
  /** Resolves once the node has received `count` requests for the method, from its start. */
  waitForRequests(method: string, count: number): Promise<void>
  /** Closes all connections, and refuses new ones. */
  stop(): Promise<void>
}

export const startFakeNode = async (responses: Readonly<Record<string, ResponseScript>> = {}, host = '127.0.0.1'): Promise<FakeNode> => {
  const scripts = new Map<string, ResponseScript>(Object.entries({ eth_chainId: { result: '0x7a69' }, ...responses }))
  const received: ReceivedRequest[] = []
  const server = http.createServer(async (httpRequest, httpResponse) => {
    const request = await readRequest(httpRequest)
    received.push(request)
    server.emit('request-received')
    const response = scripts.get(request.method) ?? methodNotFound
    sendScripted(httpResponse, request.id, typeof response === 'function' ? await response(request) : response)
  })
  server.listen(0, host)
  await once(server, 'listening')
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    received,
    setResponse: (method, response) => void scripts.set(method, response),
    async waitForRequests(method, count) {
      while (received.filter(request => request.method === method).length < count) await once(server, 'request-received')
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
  // An incomplete body has a content-length that it does not reach.
  const length = then === undefined ? body.length : body.length + 1
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': length, ...headers })
  if (then === undefined) return void response.end(body)
  response.write(body, () => {
    if (then === 'close') response.destroy()
  })
}
