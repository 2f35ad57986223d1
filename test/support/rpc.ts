import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import { WebSocket } from 'ws'

/** A JSON-RPC response as a test reads it; what it really holds is for the test to find out. */
export interface Message {
  readonly jsonrpc?: string
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
  readonly [member: string]: unknown
}

/** A whole HTTP answer. */
export interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  /** The text as JSON; throws when it is none. */
  json(): Message
}

export interface Asking {
  /** The Host header; that of the URL unless given. */
  readonly host?: string
  readonly headers?: http.OutgoingHttpHeaders
  /** POST unless given. */
  readonly method?: string
  readonly signal?: AbortSignal
}

/** Sends these very bytes as one HTTP request on a connection of its own. */
export const post = async (url: string, body: string | Uint8Array, { host, headers, method, signal }: Asking = {}): Promise<Answer> => {
  const request = http.request(url, {
    agent: false,
    method: method ?? 'POST',
    headers: { 'content-type': 'application/json', ...(host && { host }), ...headers },
    ...(signal && { signal }),
  })
  request.end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  return readAnswer(response)
}

const readAnswer = async (response: http.IncomingMessage): Promise<Answer> => {
  const chunks: Buffer[] = await response.toArray()
  const text = Buffer.concat(chunks).toString()
  return { status: response.statusCode ?? 0, headers: response.headers, text, json: () => JSON.parse(text) }
}

/** One well-formed call; its parsed response. */
export const call = async (url: string, method: string, params: readonly unknown[] = [], asking: Asking = {}): Promise<Message> =>
  (await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), asking)).json()

/** The result of a call that must succeed. */
export const result = async <T = string>(url: string, method: string, params: readonly unknown[] = []): Promise<T> => {
  const message = await call(url, method, params)
  if (message.error !== undefined) throw new Error(`${method}: ${message.error.message}`)
  return message.result as T
}

/** A TCP connection for what no HTTP client would send. */
export interface Raw {
  write(bytes: string | Uint8Array): void
  /** Everything received so far, once it matches. Rejects when the other side closes before. */
  until(pattern: RegExp): Promise<string>
  /** Everything received, once the other side has closed. */
  readonly ended: Promise<string>
  close(): void
}

export const openRaw = async (url: string): Promise<Raw> => {
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
    async until(pattern) {
      while (!pattern.test(text)) {
        await Promise.race([once(socket, 'data'), closed])
        if (socket.closed && !pattern.test(text)) throw new Error(`closed before ${pattern}: ${text}`)
      }
      return text
    },
    ended: closed.then(() => text),
    close: () => void socket.destroy(),
  }
}

/** One WebSocket, asked like a client would. */
export interface Talker {
  readonly socket: WebSocket
  /** Sends the text or bytes as they are. */
  send(frame: string | Uint8Array): void
  /** The next message that nobody has taken; rejects when the socket closes. */
  next(): Promise<Message>
  /** One call and its response. Only one at a time. */
  call(method: string, params?: readonly unknown[]): Promise<Message>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
  close(): Promise<void>
}

/** Rejects with `Refused`, which holds the whole HTTP answer, when the upgrade is refused. */
export const connect = async (url: string, { host, headers }: Asking = {}): Promise<Talker> => {
  const socket = new WebSocket(url, { headers: { ...(host && { host }), ...headers } as Record<string, string> })
  const inbox: Message[] = []
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
  await opened(socket)
  const next = async (): Promise<Message> => {
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
    next,
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
export class Refused extends Error {
  readonly answer: Answer

  constructor(answer: Answer) {
    super(`the upgrade was refused with ${answer.status}`)
    this.answer = answer
  }
}

const opened = (socket: WebSocket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.on('open', resolve).on('error', reject)
    socket.on('unexpected-response', async (_request, response) => reject(new Refused(await readAnswer(response))))
  })
