import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import type { Clock, Timer } from '../services/clock.ts'
import { failWhole } from '../wire/answer.ts'
import { passOver, refuseBare } from './bare.ts'
import { Conversation } from './conversation.ts'
import { readVisit } from './door.ts'
import type { Doors, Served, Visit } from './door.ts'
import type { Handshake } from './handshake.ts'

const pingEvery = 30_000
/** A key revoked while a socket is silent closes it within 1 s: half of it for this, half for the key to be looked up anew. */
const checkEvery = 400

/** The WebSocket door: `/ws/v3/<API_KEY>` (contract 4.1). */
export class Sockets {
  readonly #doors: Doors
  /** Loaded once the server listens: ws takes 20 of the 400 ms of a start. Whoever comes before that waits for it. */
  readonly #handshake: Promise<Handshake>
  readonly #open = new Set<Conversation>()
  readonly #timers: readonly Timer[]

  constructor(server: Server, doors: Doors, clock: Clock) {
    this.#doors = doors
    this.#handshake = import('./handshake.ts').then(({ openHandshake }) => openHandshake(doors))
    this.#timers = [
      clock.every(pingEvery, () => this.#open.forEach(conversation => conversation.ping())),
      clock.every(checkEvery, () => this.#checkKeys()),
    ]
    server.on(
      'upgrade',
      (request, stream, head) =>
        void (isWebSocket(request) ? this.#upgrade(request, stream, head) : passOver(server, request, stream, head)),
    )
  }

  /** The gateway goes away: 1001 for everybody, as soon as their calls in flight have been answered. */
  end(): void {
    for (const timer of this.#timers) timer.cancel()
    for (const conversation of this.#open) conversation.end()
  }

  /** 1001 for who is left. */
  close(): void {
    for (const conversation of this.#open) conversation.close()
  }

  terminate(): void {
    for (const conversation of this.#open) conversation.terminate()
  }

  async #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> {
    stream.on('error', () => stream.destroy())
    const visit = readVisit(this.#doors, 'websocket', request)
    if ('error' in visit) return refuseBare(this.#doors, stream, visit)
    const refusal = await this.#admit(visit)
    if (refusal !== undefined) return refuseBare(this.#doors, stream, refusal, visit.caller)
    const shakeHands = await this.#handshake
    shakeHands(request, stream, head, socket => {
      const conversation = new Conversation(socket, request.socket, visit, this.#doors)
      socket.conversation = conversation
      this.#open.add(conversation)
      if (this.#doors.traffic.draining) conversation.end()
      socket.on('close', () => this.#open.delete(conversation))
    })
  }

  #admit(visit: Visit): Verdict | Promise<Verdict> {
    try {
      const verdict = visit.network.admit(visit.caller)
      return verdict instanceof Promise ? verdict.catch((bug: unknown) => this.#reportBug(visit, bug)) : verdict
    } catch (bug) {
      return this.#reportBug(visit, bug)
    }
  }

  #reportBug({ network, caller }: Visit, bug: unknown): Failure {
    this.#doors.log.error(
      { requestId: caller.requestId, network: network.name, err: bug },
      'a caller could not be admitted because of a bug',
    )
    return refuse('internal', { data: { requestId: caller.requestId } })
  }

  /** Are the keys of open sockets still good? Asked once per key, however many sockets it has open; mostly known at once. */
  #checkKeys(): void {
    const verdicts = new Map<Served, Map<string | undefined, Verdict | Promise<Verdict>>>()
    for (const conversation of this.#open) {
      const { network, caller } = conversation.visit
      const here = verdicts.get(network) ?? new Map<string | undefined, Verdict | Promise<Verdict>>()
      verdicts.set(network, here)
      const key = caller.key?.reveal()
      const verdict = here.has(key) ? here.get(key) : this.#admit(conversation.visit)
      here.set(key, verdict)
      if (verdict instanceof Promise) void verdict.then(failure => tell(conversation, failure))
      else tell(conversation, verdict)
    }
  }
}

/** What is wrong with a key, if anything is. */
type Verdict = Failure | undefined

const tell = (conversation: Conversation, verdict: Verdict): void => {
  if (verdict?.kind === 'key') conversation.deliver(failWhole(verdict))
}

const isWebSocket = ({ method, headers }: IncomingMessage): boolean => method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'
