import { LRUCache } from 'lru-cache'
import { blocksOf, definePlugin, isFailure, mustBeInTable, Pieces, remembering, wholeOf } from '../../src/plugin.ts'
import type { Call, Failure, Handler, Json, Keep, Next, Reply, Result, Services, Text, View } from '../../src/plugin.ts'
import { Flight } from './flight.ts'
import { Shared, sharedOptions } from './shared.ts'
import { minedIn, subjectOf } from './subject.ts'
import type { Subject } from './subject.ts'

const policies = ['never', 'head', 'block', 'found'] as const

/** Bytes that an entry takes beside its key and its result: measured with 100,000 small entries. */
const overhead = 400

/** An answer, and how long it stands: while final blocks stand, or while the head does in whose epoch it was asked. */
interface Kept {
  readonly reply: Reply
  readonly era?: number
  readonly epoch?: number
}

/** A call that a node must answer, and what was known, at which time, before one was asked. */
interface Miss {
  readonly call: Call<'request'>
  readonly keep: Keep
  readonly key: string
  readonly view: View
  readonly asked: number
}

/**
 * Answers from memory, and one upstream call for identical calls in flight. What is final is kept until room is needed.
 * What may change is kept for the time between two polls at most, only until another head becomes known, and only if
 * it comes from a node that had told of the newest head. Errors, `null` and anything pending are never kept. The one
 * exception is a query for too much (`query returned more than 10000 results`): clients repeat it 4 to 10 times within
 * seconds.
 */
export default definePlugin({
  name: 'cache',
  summary: 'Answers repeated calls from memory; identical calls in flight share one upstream call.',
  options: {
    type: 'object',
    properties: {
      maxBytes: {
        type: 'string', format: 'size', default: '64MiB', description: "Most memory for this network's answers.",
      },
      methods: {
        type: 'object',
        additionalProperties: { type: 'string', enum: policies },
        default: {},
        description: 'What may be kept by method, over `keep` of the method table: never, head, block or found.',
      },
      tooMany: {
        type: 'string', format: 'duration', default: '10s',
        description: 'How long a query with too many results, or too wide for any node, is refused from memory; 0s: not at all.',
      },
      ...sharedOptions,
    },
  },
  check({ redisTtl }, report) {
    if (redisTtl === 0) report(['redisTtl'], 'redisTtl must be more than nothing')
  },
  reads: ['request'],
  shares: true,
  create({ maxBytes, methods: overrides, tooMany, redis, ...limits }, services) {
    const { methods, heads, clock } = services
    mustBeInTable(Object.keys(overrides).map(method => ({ path: ['methods', method], method })), methods)
    const policyOf = (name: string): Keep => overrides[name] ?? methods.get(name)?.keep ?? 'never'
    const questions = new Map(methods.names.map(name => [name, { keep: policyOf(name), textOf: textFor(name) }]))
    const kept = keepAnswers(maxBytes, services)
    const isProvedFinal = finality(methods)
    const shared = redis && new Shared({ redis, ...limits }, services)
    const flights = new Map<string, Flight>()
    const life = Math.min(services.network.blockTime, heads.interval)

    const remember = ({ call, keep, key, view, asked }: Miss, reply: Reply): void => {
      const now = heads.view
      if (reply.source === 'cache') { // final, by the word of another machine
        if (now.era === view.era) kept.set(key, { reply: remembered(reply), era: view.era })
      } else if (isFailure(reply)) {
        if (isTooMuch(reply) && tooMany > 0) kept.set(key, { reply: remembered(reply) }, { ttl: tooMany })
      } else if (!mayKeep(keep, key, reply)) {
        kept.delete(key)
      } else if (now.era === view.era && isProvedFinal(call, keep, reply, view)) {
        kept.set(key, { reply: remembered(reply), era: view.era })
        shared?.keep({ key }, reply, view)
      } else if (now.epoch === view.epoch && view.isCurrent(reply.upstream)) {
        const ttl = life - (clock.monotonic() - asked)
        if (ttl > 0) kept.set(key, { reply: remembered(reply), epoch: view.epoch }, { ttl })
      }
    }

    const handle: Handler<'request'> = async (call, next) => {
      const { method, params } = call.notes.request
      const question = questions.get(method)
      if (question === undefined || question.keep === 'never') return next(call)
      const key = services.vary(call) + question.textOf(params)
      const view = heads.view
      const hit = kept.get(key)
      if (hit !== undefined && stands(hit, view)) {
        heads.touch() // what is final is so while nobody sees it undone
        return hit.reply
      }
      const flight = flights.get(key)
      if (flight?.mayJoin(view) === true) return marked(await flight.join(call), 'hit')
      const asked = clock.monotonic()
      const { keep } = question
      const ask = shared === undefined ? next : askShared(shared, { call, keep, key }, methods, next)
      const fresh = new Flight(view, call, ask, () => {
        if (flights.get(key) === fresh) flights.delete(key)
      })
      flights.set(key, fresh)
      const reply = await fresh.join(call)
      remember({ call, keep, key, view, asked }, reply)
      return marked(reply, reply.source === 'cache' ? 'hit' : 'miss')
    }
    return { handle, start: async () => shared?.open() }
  },
})

const keepAnswers = (maxBytes: number, { memory, keep, clock }: Services): LRUCache<string, Kept> => {
  const maxSize = Math.max(1, Math.min(maxBytes, memory)) // lru-cache takes 0 for no bound
  return keep('answers', { maxSize }, () => new LRUCache<string, Kept>({
    maxSize,
    maxEntrySize: Math.max(1, Math.floor(maxSize / 4)),
    sizeCalculation: ({ reply }, key) => (isFailure(reply) ? 0 : reply.result.byteLength) + 2 * key.length + overhead,
    perf: { now: () => clock.monotonic() },
    ttlResolution: 0,
  }))
}

const stands = ({ era, epoch }: Kept, view: View): boolean =>
  (era === undefined || era === view.era) && (epoch === undefined || epoch === view.epoch)

/** JSON text is unambiguous: `[[A,B]]` is not `[A,B]`. Parameters come normalised: equal questions have equal texts. */
const textFor = (method: string) => remembering((params: readonly Json[]) => `\n${method}\n${JSON.stringify(params)}`)

const isTooMuch = ({ kind, meaning }: Failure): boolean => kind === 'tooMany' || meaning === 'tooWide'

const marked = (reply: Reply, cache: 'hit' | 'miss'): Reply => {
  if (isFailure(reply)) return { ...reply, cache }
  const { result, count, source, upstream } = reply
  return { result, count, source, upstream, cache }
}

/** The reply as later callers get it: no node was asked for them, so a refusal costs them nothing. */
const remembered = (reply: Reply): Reply => {
  if (isFailure(reply)) return { ...reply, source: 'cache', upstream: undefined, cache: 'hit' }
  return { result: onItsOwn(reply.result), count: reply.count, source: 'cache', upstream: undefined, cache: 'hit' }
}

/** What is part of something longer would keep all of that: 64 KiB, for 66 bytes that came compressed. In 1 MiB that is little. */
const onItsOwn = (text: Text): Text => {
  if (text instanceof Pieces) return text.byteLength > 1 << 20 ? text : wholeOf(text)
  return text.buffer.byteLength - text.byteLength > overhead ? Buffer.from(new Uint8Array(text).buffer) : text
}

/** What other machines know comes before a node is asked. */
const askShared = (
  shared: Shared, { call, keep, key }: Pick<Miss, 'call' | 'keep' | 'key'>, methods: Services['methods'], next: Next<'request'>,
): Next<'request'> => {
  const question = { key, method: call.notes.request.method, keep, subject: subjectIn(call, methods) }
  return async asking => await shared.find(question) ?? next(asking)
}

const nothing = Buffer.from('null')

const mayKeep = (keep: Keep, key: string, { result, odd }: Result): boolean => {
  if (odd === true || isNothing(result) || key.includes('"pending"')) return false
  return keep !== 'found' || minedIn(result) !== undefined
}

const isNothing = (result: Text): boolean => result.byteLength === nothing.length && wholeOf(result).equals(nothing)

/** The block that the call names, where its method says in which parameter. */
const subjectIn = ({ notes: { request } }: Call<'request'>, methods: Services['methods']): Subject | undefined => {
  const blocks = blocksOf(methods.get(request.method), request.params)
  return blocks && subjectOf(blocks)
}

/** Is the answer about a block that the node which gave it had called final before it was asked? */
const finality = (methods: Services['methods']) =>
  (call: Call<'request'>, keep: Keep, reply: Result, view: View): boolean => {
    const subject = keep === 'found' ? minedIn(reply.result) : keep === 'block' ? subjectIn(call, methods) : undefined
    return subject !== undefined && view.isFinal(reply.upstream, subject)
  }
