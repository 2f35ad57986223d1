import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import type { Clock, Timer } from '../services/clock.ts'
import { failWhole } from '../wire/answer.ts'
import { bodyText } from '../wire/write.ts'
import { Conversation, sendBody } from './conversation.ts'
import { readVisit } from './door.ts'
import type { Doors, Visit } from './door.ts'
import { nextRequestId } from './origin.ts'
import { headersOf } from './send.ts'

const pingEvery = 30_000
/** A key revoked while a socket is silent closes it within 1 s: half of it for this, half for the key to be looked up anew. */
const checkEvery = 400

/** The WebSocket door: `/ws/v3/<API_KEY>` (contract 4.1). */
export class Sockets {
  readonly #doors: Doors
  readonly #accept: WebSocketServer
  readonly #open = new Set<Conversation>()
  readonly #timers: readonly Timer[]

  constructor(server: Server, doors: Doors, clock: Clock) {
    this.#doors = doors
    this.#accept = new WebSocketServer({
      noServer: true, maxPayload: doors.limits.frame, perMessageDeflate: false, clientTracking: false, WebSocket: Socket,
    })
    this.#timers = [
      clock.every(pingEvery, () => this.#open.forEach(conversation => conversation.ping())),
      clock.every(checkEvery, () => void this.#checkKeys()),
    ]
    server.on('upgrade', (request, stream, head) => void this.#upgrade(request, stream, head))
  }

  /** The gateway goes away: 1001 for everybody. */
  close(): void {
    for (const timer of this.#timers) timer.cancel()
    for (const conversation of this.#open) conversation.close(1001, 'the gateway is stopping')
  }

  terminate(): void {
    for (const conversation of this.#open) conversation.terminate()
  }

  async #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> {
    stream.on('error', () => stream.destroy())
    const visit = readVisit(this.#doors, 'websocket', request)
    if ('error' in visit) return refuseUpgrade(stream, nextRequestId(), visit)
    const refusal = await this.#admit(visit)
    if (refusal !== undefined) return refuseUpgrade(stream, visit.caller.requestId, refusal)
    this.#accept.handleUpgrade(request, stream, head, socket => {
      const conversation = new Conversation(socket, request.socket, visit, this.#doors)
      this.#open.add(conversation)
      socket.on('close', () => this.#open.delete(conversation))
    })
  }

  async #admit({ network, caller }: Visit): Promise<Failure | undefined> {
    try {
      return await network.admit(caller)
    } catch (bug) {
      this.#doors.log.error({ requestId: caller.requestId, network: network.name, err: bug }, 'a caller could not be admitted because of a bug')
      return refuse('internal', { data: { requestId: caller.requestId } })
    }
  }

  /** Are the keys of open sockets still good? Asked once per key, however many sockets it has open. */
  async #checkKeys(): Promise<void> {
    const verdicts = new Map<string, Promise<Failure | undefined>>()
    for (const conversation of this.#open) {
      const { network, caller } = conversation.visit
      const key = `${network.name} ${caller.key?.reveal()}`
      const verdict = verdicts.get(key) ?? this.#admit(conversation.visit)
      verdicts.set(key, verdict)
      const failure = await verdict
      if (failure?.kind === 'key') conversation.deliver(failWhole(failure))
    }
  }
}

/** A message over the limit is answered before the close that ws sends for it. */
class Socket extends WebSocket {
  override close(code?: number, reason?: string | Buffer): void {
    const { body } = failWhole(refuse('bodyTooLarge'))
    if (code === 1009 && this.readyState === WebSocket.OPEN && body !== undefined) sendBody(this, body)
    super.close(code, reason)
  }
}

const refuseUpgrade = (stream: Duplex, requestId: string, failure: Failure): void => {
  const refusal = failWhole(failure)
  const headers = headersOf(refusal, requestId, { closing: true, isCompressed: false })
  const lines = [`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  stream.end(`${lines.join('\r\n')}\r\n\r\n${refusal.body === undefined ? '' : bodyText(refusal.body)}`, 'latin1')
}
