import { definePlugin, isFailure, mustBeInTable, remembering } from '../../src/plugin.ts'
import type { Handler, Json, Keep, Next, Reply, Services } from '../../src/plugin.ts'
import { Flight } from './flight.ts'
import { Memory } from './memory.ts'
import type { Miss } from './memory.ts'
import { Shared, sharedOptions } from './shared.ts'
import { subjectOf } from './subject.ts'

const policies = ['never', 'head', 'block', 'found'] as const

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
        type: 'string',
        format: 'size',
        default: '64MiB',
        description: "Most memory for this network's answers; less where its share of `memory` in gateway.yaml is less.",
      },
      methods: {
        type: 'object',
        additionalProperties: { type: 'string', enum: policies },
        default: {},
        description: 'What may be kept by method, over `keep` of the method table: never, head, block or found.',
      },
      tooMany: {
        type: 'string',
        format: 'duration',
        default: '10s',
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
    mustBeInTable(
      Object.keys(overrides).map(method => ({ path: ['methods', method], method })),
      methods,
    )
    const policyOf = (name: string): Keep => overrides[name] ?? methods.get(name)?.keep ?? 'never'
    const questions = new Map(methods.names.map(name => [name, { keep: policyOf(name), textOf: textFor(name) }]))
    const shared = redis && new Shared({ redis, ...limits }, services)
    const memory = new Memory({ maxBytes, tooMany }, services, shared)
    const flights = new Map<string, Flight>()

    const handle: Handler<'request'> = async (call, next) => {
      const { method, params } = call.notes.request
      const question = questions.get(method)
      if (question === undefined || question.keep === 'never') return next(call)
      const key = services.vary(call) + question.textOf(params)
      const view = heads.view
      const hit = memory.find(key, view)
      if (hit !== undefined) {
        heads.touch() // what is final is so while nobody sees it undone
        return hit
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
      memory.keep({ call, keep, key, view, asked }, reply)
      return marked(reply, reply.source === 'cache' ? 'hit' : 'miss')
    }
    return { handle, start: async () => shared?.open() }
  },
})

/** JSON text is unambiguous: `[[A,B]]` is not `[A,B]`. Parameters come normalised: equal questions have equal texts. */
const textFor = (method: string) => remembering((params: readonly Json[]) => `\n${method}\n${JSON.stringify(params)}`)

const marked = (reply: Reply, cache: 'hit' | 'miss'): Reply => {
  if (isFailure(reply)) return { ...reply, cache }
  const { result, count, source, upstream } = reply
  return { result, count, source, upstream, cache }
}

/** What other machines know comes before a node is asked. */
const askShared = (
  shared: Shared,
  { call, keep, key }: Pick<Miss, 'call' | 'keep' | 'key'>,
  methods: Services['methods'],
  next: Next<'request'>,
): Next<'request'> => {
  const question = { key, method: call.notes.request.method, keep, subject: subjectOf(call, methods) }
  return async asking => (await shared.find(question)) ?? next(asking)
}
