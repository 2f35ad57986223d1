import type { Transform } from 'node:stream'
import { createBrotliDecompress, createUnzip } from 'node:zlib'
import type { Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure } from '../../reply.ts'
import type { Clock } from '../clock.ts'
import type { Headers } from './lines.ts'

/** What the head of an answer says about its body. */
export interface Judged {
  /** The body is not worth reading. */
  readonly trouble?: Failure
  /** What it comes to when its body is no JSON-RPC answer, or breaks off. */
  readonly otherwise?: Failure
  /** A result in the body counts for nothing, but an error may say more than the head does. */
  readonly isRefused?: true
  /** What the body must go through first. */
  readonly inflater?: Inflater
  /** Bytes of the body, where the node announced them. */
  readonly length?: number | undefined
}

export interface Inflater {
  readonly kind: 'zlib' | 'brotli'
  make(): Transform
}

interface Asked {
  readonly target: Target
  readonly clock: Clock
}

export const judgeHead = (status: number, headers: Headers, asked: Asked): Judged => {
  const trouble = troubleOf(status, headers, asked)
  if (trouble !== undefined) return isExplained(status, headers) ? explained(trouble, headers, asked) : { trouble }
  const body = judgeBody(headers, asked)
  return tooLong.has(status) ? { ...body, otherwise: overlong(asked.target, `HTTP ${status}`) } : body
}

/** Some providers put HTTP 503 on a query that takes too long, or on what is over our rate. */
const isExplained = (status: number, headers: Headers): boolean =>
  status >= 500 && /^application\/json\b/i.test(String(headers['content-type']))

const explained = (trouble: Failure, headers: Headers, asked: Asked): Judged => {
  const body = judgeBody(headers, asked)
  return body.trouble === undefined ? { ...body, otherwise: trouble, isRefused: true } : { trouble }
}

const judgeBody = (headers: Headers, asked: Asked): Judged => {
  const encoding = headers['content-encoding']
  if (encoding === undefined) return { length: lengthOf(headers) }
  const name = String(encoding).trim().toLowerCase()
  if (name === 'identity' || name === '') return { length: lengthOf(headers) }
  const inflater = inflaterFor(name)
  return inflater === undefined ? { trouble: unusable(asked.target, 'the answer is compressed in a way that is not known') } : { inflater }
}

export const unusable = ({ name: upstream, source }: Target, cause: string): Failure => refuse('unavailable', { source, upstream, cause })

/**
 * The node takes no question of this length. The caller's question is at fault as little as the node's health: the door
 * let it in, so another node, or the partner, is to take it.
 */
const overlong = ({ name: upstream, source }: Target, cause: string): Failure =>
  refuse('bodyTooLarge', { source, upstream, cause, fault: 'upstream', elsewhere: true })

const lengthOf = (headers: Headers): number | undefined => {
  const length = Number(headers['content-length'])
  return Number.isSafeInteger(length) ? length : undefined
}

/** Some nodes put HTTP 400 on a plain JSON-RPC error. What refuses us, not the call, is the node's own trouble. */
const troubleOf = (status: number, headers: Headers, { target, clock }: Asked): Failure | undefined => {
  const isPlain = status === 200 || (status >= 400 && status < 500 && status !== 429 && !refusing.has(status))
  if (isPlain) return undefined
  const failure = unusable(target, `HTTP ${status}`)
  return status === 429 ? { ...failure, meaning: 'limited', ...retryAfter(headers['retry-after'], clock) } : failure
}

const refusing: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 407])

/** Of the body, the target, the headers. */
const tooLong: ReadonlySet<number> = new Set([413, 414, 431])

/** Retry-After is a number of seconds or a date. */
const retryAfter = (header: string | string[] | undefined, clock: Clock): { readonly retryAfter?: number } => {
  const text = String(header ?? '').trim()
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - clock.now()) / 1000
  return Number.isFinite(seconds) ? { retryAfter: Math.max(0, seconds) } : {}
}

/** One encoding only: each further one multiplies what a few bytes can become. */
const inflaterFor = (encoding: string): Inflater | undefined =>
  /^(x-)?gzip$|^deflate$/.test(encoding)
    ? { kind: 'zlib', make: () => createUnzip({ chunkSize }) }
    : encoding === 'br'
      ? { kind: 'brotli', make: () => createBrotliDecompress({ chunkSize }) }
      : undefined

const chunkSize = 65_536
