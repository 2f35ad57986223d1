import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import { WebSocket } from 'ws'
import { bounded } from './bounded.ts'

/** A JSON-RPC response, unchecked. */
export interface RpcMessage {
  readonly jsonrpc?: string
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
  readonly [member: string]: unknown
}

/** A whole HTTP response. */
export interface HttpResponse {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  /** The text as JSON; throws when it is not JSON. */
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

/** Sends exactly these bytes as the body of one HTTP request, on a connection of its own. */
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
  return bounded(`the response to ${String(body.slice(0, maxNamedChars))}`, responseOf(request))
}

const maxNamedChars = 200

const responseOf = async (request: http.ClientRequest): Promise<HttpResponse> => {
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  return readResponse(response)
}

const readResponse = async (response: http.IncomingMessage): Promise<HttpResponse> => {
  const chunks: Buffer[] = await response.toArray()
  const text = Buffer.concat(chunks).toString()
  return { status: response.statusCode ?? 0, headers: response.headers, text, json: () => JSON.parse(text) }
}

/** Sends one well-formed call; resolves with the parsed response. */
export const call = async (
  url: string,
  method: string,
  params: readonly unknown[] = [],
  options: RequestOptions = {},
): Promise<RpcMessage> => (await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), options)).json()

/** The result of a call that must succeed. */
export const callResult = async <T = string>(url: string, method: string, params: readonly unknown[] = []): Promise<T> => {
  const message = await call(url, method, params)
  if (message.error !== undefined) throw new Error(`${method}: ${message.error.message}`)
  return message.result as T
}

/** A TCP connection, for bytes that no HTTP client would send. */
export interface RawConnection {
  write(bytes: string | Uint8Array): void
  /** Resolves with everything received so far, once it matches. Rejects when the connection is closed before. */
  waitFor(pattern: RegExp): Promise<string>
  /** Resolves with everything received, once the connection is closed. */
  readonly received: Promise<string>
  close(): void
  /** Ends this side alone. */
  end(): void
}

export const openRawConnection = async (url: string): Promise<RawConnection> => {
  const { hostname, port } = new URL(url)
  const socket = net.connect({ host: hostname, port: Number(port) }).setEncoding('latin1')
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  // A reset counts as a close.
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
    end: () => void socket.end(),
    close: () => void socket.destroy(),
  }
}

/** A WebSocket client. */
export interface WsClient {
  readonly socket: WebSocket
  /** Sends the text or bytes as they are. */
  send(frame: string | Uint8Array): void
  /** The next unread message; rejects when the socket is closed. */
  nextMessage(): Promise<RpcMessage>
  /** Sends a call; resolves with the next message, so only one call at a time. */
  call(method: string, params?: readonly unknown[]): Promise<RpcMessage>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
  close(): Promise<void>
}

/** Rejects with UpgradeRefused, which holds the HTTP response, when the upgrade is rejected. */
export const connectWs = async (url: string, { host, headers }: RequestOptions = {}): Promise<WsClient> => {
  const socket = new WebSocket(url, { headers: { ...(host && { host }), ...headers } as Record<string, string> })
  const inbox: RpcMessage[] = []
  let notify = () => {}
  socket.on('message', (data, isBinary) => {
    // Binary responses break real clients.
    if (isBinary) throw new Error('a binary frame')
    inbox.push(JSON.parse(String(data)))
    notify()
  })
  const closed = new Promise<{ code: number; reason: string }>(resolve =>
    socket.on('close', (code, reason) => {
      resolve({ code, reason: String(reason) })
      notify()
    }),
  )
  await whenOpen(socket)
  const nextMessage = async (): Promise<RpcMessage> => {
    while (inbox.length === 0 && socket.readyState !== WebSocket.CLOSED) {
      await new Promise<void>(resolve => {
        notify = resolve
      })
    }
    const message = inbox.shift()
    if (message === undefined) throw new Error(`the socket is closed: ${JSON.stringify(await closed)}`)
    return message
  }
  return {
    socket,
    nextMessage,
    closed,
    send: frame => socket.send(frame, { binary: typeof frame !== 'string' }),
    async call(method, params = []) {
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
      return nextMessage()
    },
    async close() {
      socket.close()
      await closed
    },
  }
}

/** The server rejected the upgrade. */
export class UpgradeRefused extends Error {
  readonly response: HttpResponse

  constructor(response: HttpResponse) {
    super(`the upgrade was rejected with ${response.status}`)
    this.response = response
  }
}

const whenOpen = (socket: WebSocket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.on('open', resolve).on('error', reject)
    socket.on('unexpected-response', async (_request, response) => reject(new UpgradeRefused(await readResponse(response))))
  })
