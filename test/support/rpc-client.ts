import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import { WebSocket } from 'ws'

/** A JSON-RPC response as a test reads it; what it really holds is for the test to find out. */
export interface RpcMessage {
  readonly jsonrpc?: string
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
  readonly [member: string]: unknown
}

/** A whole HTTP answer. */
export interface HttpResponse {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  /** The text as JSON; throws when it is none. */
  json(): RpcMessage
}

export interface RequestOptions {
  /** The Host header; that of the URL unless given. */
  readonly host?: string
  readonly headers?: http.OutgoingHttpHeaders
  /** POST unless given. */
  readonly method?: string
  readonly signal?: AbortSignal
}

/** Sends these very bytes as one HTTP request on a connection of its own. */
export const post = async (
  url: string,
  body: string | Uint8Array,
  { host, headers, method, signal }: RequestOptions = {},
): Promise<HttpResponse> => {
  const request = http.request(url, {
    agent: false,
    method: method ?? 'POST',
    headers: { 'content-type': 'application/json', ...(host && { host }), ...headers },
    ...(signal && { signal }),
  })
  request.end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  return readResponse(response)
}

const readResponse = async (response: http.IncomingMessage): Promise<HttpResponse> => {
  const chunks: Buffer[] = await response.toArray()
  const text = Buffer.concat(chunks).toString()
  return { status: response.statusCode ?? 0, headers: response.headers, text, json: () => JSON.parse(text) }
}

/** One well-formed call; its parsed response. */
export const call = async (
  url: string,
  method: string,
  params: readonly unknown[] = [],
  asking: RequestOptions = {},
): Promise<RpcMessage> => (await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), asking)).json()

/** The result of a call that must succeed. */
export const callResult = async <T = string>(url: string, method: string, params: readonly unknown[] = []): Promise<T> => {
  const message = await call(url, method, params)
  if (message.error !== undefined) throw new Error(`${method}: ${message.error.message}`)
  return message.result as T
}

/** A TCP connection for what no HTTP client would send. */
export interface RawConnection {
  write(bytes: string | Uint8Array): void
  /** Everything received so far, once it matches. Rejects when the other side closes before. */
  waitFor(pattern: RegExp): Promise<string>
  /** Everything received, once the other side has closed. */
  readonly received: Promise<string>
  close(): void
}

export const openRawConnection = async (url: string): Promise<RawConnection> => {
  const { hostname, port } = new URL(url)
  const socket = net.connect({ host: hostname, port: Number(port) }).setEncoding('latin1')
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  // A reset is one more way to close.
  socket.on('error', () => {})
  await once(socket, 'connect')
  const closed = once(socket, 'close')
  return {
    write: bytes => void socket.write(bytes),
    async waitFor(pattern) {
      while (!pattern.test(text)) {
        await Promise.race([once(socket, 'data'), closed])
        if (socket.closed && !pattern.test(text)) throw new Error(`closed before ${pattern}: ${text}`)
      }
      return text
    },
    received: closed.then(() => text),
    close: () => void socket.destroy(),
  }
}

/** One WebSocket, asked like a client would. */
export interface WsClient {
  readonly socket: WebSocket
  /** Sends the text or bytes as they are. */
  send(frame: string | Uint8Array): void
  /** The next message that nobody has taken; rejects when the socket closes. */
  nextMessage(): Promise<RpcMessage>
  /** One call and its response. Only one at a time. */
  call(method: string, params?: readonly unknown[]): Promise<RpcMessage>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
  close(): Promise<void>
}

/** Rejects with `Refused`, which holds the whole HTTP answer, when the upgrade is refused. */
export const connectWs = async (url: string, { host, headers }: RequestOptions = {}): Promise<WsClient> => {
  const socket = new WebSocket(url, { headers: { ...(host && { host }), ...headers } as Record<string, string> })
  const inbox: RpcMessage[] = []
  let wake = () => {}
  socket.on('message', (data, isBinary) => {
    // A binary reply breaks real clients.
    if (isBinary) throw new Error('a binary frame')
    inbox.push(JSON.parse(String(data)))
    wake()
  })
  const closed = new Promise<{ code: number; reason: string }>(resolve =>
    socket.on('close', (code, reason) => {
      resolve({ code, reason: String(reason) })
      wake()
    }),
  )
  await whenOpen(socket)
  const next = async (): Promise<RpcMessage> => {
    while (inbox.length === 0 && socket.readyState !== WebSocket.CLOSED) {
      await new Promise<void>(resolve => {
        wake = resolve
      })
    }
    const message = inbox.shift()
    if (message === undefined) throw new Error(`the socket was closed: ${JSON.stringify(await closed)}`)
    return message
  }
  return {
    socket,
    nextMessage: next,
    closed,
    send: frame => socket.send(frame, { binary: typeof frame !== 'string' }),
    async call(method, params = []) {
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
      return next()
    },
    async close() {
      socket.close()
      await closed
    },
  }
}

/** A refused upgrade. */
export class UpgradeRefused extends Error {
  readonly response: HttpResponse

  constructor(answer: HttpResponse) {
    super(`the upgrade was refused with ${answer.status}`)
    this.response = answer
  }
}

const whenOpen = (socket: WebSocket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.on('open', resolve).on('error', reject)
    socket.on('unexpected-response', async (_request, response) => reject(new UpgradeRefused(await readResponse(response))))
  })
