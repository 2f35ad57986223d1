import { inspect } from 'node:util'
import type { Json, Origin } from '../call.ts'
import type { Next } from '../plugin.ts'
import { isFailure, refuse } from '../reply.ts'
import type { Failure, Reply } from '../reply.ts'
import type { Log } from '../services/log.ts'
import type { ReadMessage, Received } from './message.ts'
import { writeBatch, writeReply } from './write.ts'
import type { Body } from './write.ts'

/** What stands behind a door: the pipeline of a network. */
export interface Door {
  readonly read: ReadMessage
  readonly run: Next
  readonly limits: {
    /** Longest answer to a batch, in bytes. */
    readonly batchReply: number
  }
  readonly log: Log
}

/** What a caller gets for one message. */
export interface Answer {
  /** The caller's id as it came, where a single call has one; else `null`. */
  readonly id: string
  /** Undefined when nothing is owed: all calls were notifications. */
  readonly body: Body | undefined
  /** HTTP status. */
  readonly status: number
  /** Seconds, for the Retry-After header. */
  readonly retryAfter: number | undefined
  /** In order of position; for headers and metrics. */
  readonly replies: readonly Reply[]
}

/** Answers one message, whatever it is. Never throws and never rejects: a bug costs its own call and is logged. */
export const answer = async (door: Door, bytes: Uint8Array, origin: Origin): Promise<Answer> => {
  try {
    const incoming = door.read(bytes)
    if ('error' in incoming) return failWhole(incoming)
    if ('message' in incoming) return answerOne(await settle(door, incoming, origin), incoming.id)
    return await answerBatch(door, incoming, origin)
  } catch (bug) {
    return failBug(door, origin, bug)
  }
}

/** The answer to a message that was refused as a whole: mostly before any call was read from it, which gives it no id. */
export const failWhole = (failure: Failure, id = 'null'): Answer => answerOne({ reply: failure, body: writeReply(id, failure) }, id)

/** Logs a bug, and answers the whole message with an internal error. */
export const failBug = ({ log }: Pick<Door, 'log'>, origin: Origin, bug: unknown, id?: string): Answer =>
  failWhole(reportBug(log, origin, bug), id)

/** A call's reply, and how it is told to the caller, if it is. */
interface Settled {
  readonly reply: Reply
  readonly body: Body | undefined
}

const answerOne = ({ reply, body }: Settled, id = 'null'): Answer =>
  body === undefined
    ? { id, body, status: 204, retryAfter: undefined, replies: [reply] }
    : isFailure(reply)
      ? { id, body, status: reply.status, retryAfter: reply.retryAfter, replies: [reply] }
      : { id, body, status: 200, retryAfter: undefined, replies: [reply] }

/** Starts the call at once: nothing is awaited before the pipeline runs. */
const settle = async (door: Door, { message, id, refusal }: Received, origin: Origin): Promise<Settled> => {
  try {
    const reply = refusal ?? (await door.run({ message, origin, signal: undefined, notes: {} }))
    return { reply, body: tell(id, reply) }
  } catch (bug) {
    const reply = reportBug(door.log, origin, bug, message)
    return { reply, body: tell(id, reply) }
  }
}

/** A notification is owed no answer, except that it was none: what is not a valid request is always told. */
const tell = (id: string | undefined, reply: Reply): Body | undefined =>
  id !== undefined ? writeReply(id, reply) : isFailure(reply) && reply.kind === 'invalid' ? writeReply('null', reply) : undefined

/** All calls at once, started in order of position; the answers stand in order of position, notifications left out. */
const answerBatch = async (door: Door, batch: readonly Received[], origin: Origin): Promise<Answer> => {
  const settled = await Promise.all(batch.map(received => settle(door, received, origin)))
  let room = door.limits.batchReply - '['.length
  const fitted = settled.map((one, position) => {
    if (one.body === undefined) return one
    const length = one.body.length + ','.length
    if (length > room) return drop(door, one.reply, batch[position]!, origin)
    room -= length
    return one
  })
  const bodies = fitted.flatMap(({ body }) => body ?? [])
  const replies = fitted.map(({ reply }) => reply)
  return bodies.length === 0
    ? { id: 'null', body: undefined, status: 204, retryAfter: undefined, replies }
    : { id: 'null', body: writeBatch(bodies), status: 200, retryAfter: undefined, replies }
}

/** The call was served, but its answer finds no room in the batch's: it is taken back. */
const drop = (door: Door, reply: Reply, { message, id }: Received, origin: Origin): Settled => {
  let refusal = refuse('tooLarge')
  try {
    reply.charge?.refund('tooLarge')
  } catch (bug) {
    refusal = reportBug(door.log, origin, bug, message)
  }
  return { reply: refusal, body: writeReply(id ?? 'null', refusal) }
}

const reportBug = (log: Log, { requestId, network }: Origin, bug: unknown, message?: Json): Failure => {
  const stack = bug instanceof Error ? bug.stack : inspect(bug)
  log.error({ requestId, network, method: methodOf(message), stack }, 'a call failed because of a bug')
  return refuse('internal', { data: { requestId } })
}

const methodOf = (message: Json | undefined): string | undefined =>
  typeof message === 'object' && message !== null && 'method' in message && typeof message.method === 'string'
    ? message.method.slice(0, 100)
    : undefined
