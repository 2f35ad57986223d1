import { pipeline } from 'node:stream'
import type { Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createUnzip } from 'node:zlib'
import type { Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure, Meaning, Reply } from '../../reply.ts'
import { NodeAnswer } from '../../wire/node.ts'
import type { Clock } from '../clock.ts'
import type { Gate } from './gate.ts'
import type { Head } from './lines.ts'
import type { Room } from './room.ts'

/** What an answer is read with. */
export interface Reading {
  /** Of the request. */
  readonly id: number
  readonly target: Target
  /** Most bytes, inflated. */
  readonly maxBytes: number
  readonly clock: Clock
  readonly room: Room
  readonly inflaters: Gate
  /** Ends the reading. */
  readonly signal: AbortSignal
  onBytes(): void
}

/** Reads an answer to its end, or until it cannot become one. Throws what the connection or zlib throws. */
export const readAnswer = async ({ statusCode, headers, body }: Head, reading: Reading): Promise<Reply> => {
  const trouble = troubleOf(statusCode, headers, reading)
  const encoding = String(headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (trouble === undefined && encoding === 'identity') return collect(body, reading)
  const makeInflater = inflaterFor(encoding)
  if (trouble === undefined && makeInflater !== undefined) return collectInflated(body, makeInflater, reading)
  drop(body)
  return trouble ?? unusable(reading.target, 'the answer is compressed in a way that is not known')
}

/** The connection goes with it: what else the node sends is not worth reading. */
const drop = (body: Readable): void => void body.on('error', () => undefined).destroy()

type Headers = Head['headers']

/** Some nodes put HTTP 400 on a plain JSON-RPC error. What refuses us, not the call, is the node's own trouble. */
const troubleOf = (status: number, headers: Headers, { target, clock }: Reading): Failure | undefined => {
  const isPlain = status === 200 || (status >= 400 && status < 500 && status !== 429 && !refusing.has(status))
  if (isPlain) return undefined
  const failure = unusable(target, `HTTP ${status}`)
  return status === 429 ? { ...failure, meaning: 'limited', ...retryAfter(headers['retry-after'], clock) } : failure
}

const refusing: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 407])

const unusable = ({ name: upstream, source }: Target, cause: string): Failure =>
  refuse('unavailable', { source, upstream, cause })

/** Retry-After is a number of seconds or a date. */
const retryAfter = (header: string | string[] | undefined, clock: Clock): { readonly retryAfter?: number } => {
  const text = String(header ?? '').trim()
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - clock.now()) / 1000
  return Number.isFinite(seconds) ? { retryAfter: Math.max(0, seconds) } : {}
}

/** One encoding only: each further one multiplies what a few bytes can become. */
const inflaterFor = (encoding: string): (() => Transform) | undefined =>
  /^(x-)?gzip$|^deflate$/.test(encoding) ? () => createUnzip({ chunkSize })
  : encoding === 'br' ? () => createBrotliDecompress({ chunkSize }) : undefined

/** Off the event loop, and few at once. */
const collectInflated = async (body: Readable, makeInflater: () => Transform, reading: Reading): Promise<Reply> => {
  const { inflaters, signal, target } = reading
  if (!await inflaters.enter(signal)) {
    drop(body)
    signal.throwIfAborted()
    return { ...unusable(target, 'too many compressed answers at once'), elsewhere: true }
  }
  try {
    // The callback is needed for errors to travel; who reads the inflater sees them.
    return await collect(pipeline(body, makeInflater(), () => undefined), reading)
  } finally {
    inflaters.leave()
  }
}

const chunkSize = 65_536

const collect = async (bytes: Readable, { id, target, maxBytes, room, onBytes }: Reading): Promise<Reply> => {
  const trail = { source: target.source, upstream: target.name }
  const answer = new NodeAnswer()
  let held = 0
  try {
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      onBytes()
      if (answer.length + chunk.length > maxBytes) return refuse('tooLarge', { ...trail, elsewhere: true })
      if (!room.take(chunk.length)) return crowded(target)
      held += chunk.length
      if (!answer.push(chunk)) break
    }
    const read = await answer.read(id)
    switch (read.kind) {
      case 'error': return { ...trail, kind: 'node', error: read.error, fault: 'caller', status: 200 }
      case 'garbage': return unusable(target, read.reason)
      case 'result': return read.partial !== undefined ? cutShort(target, read.partial)
        : { ...trail, result: read.bytes, ...(read.count === undefined ? {} : { count: read.count }) }
    }
  } finally {
    room.give(held)
  }
}

/** A part that looks whole: Nethermind, streaming a result, says only behind it that the query was too much (`_streamStatus`). */
const cutShort = (target: Target, status: string): Failure => {
  const meaning = ends.get(status)
  return { ...unusable(target, `the result ends early (${status})`), ...(meaning !== undefined && { meaning }) }
}

const ends: ReadonlyMap<string, Meaning> = new Map([['truncated', 'tooMany'], ['timeout', 'timeout']])

/** Ours, not the node's: another node would not help. */
const crowded = ({ name: upstream }: Target): Failure =>
  refuse('unavailable', {
    source: 'gateway', fault: 'gateway', upstream, retryAfter: 1, cause: 'answers in flight take all the room they may',
  })
