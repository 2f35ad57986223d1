import { definePlugin, refuse, withContext } from '../../src/plugin/plugin.ts'
import type { AnyPlugin } from '../../src/plugin/plugin.ts'

/**
 * What authors of plugins get wrong, and the compiler finds. It is compiled with the tests: a mistake that the compiler finds no
 * longer, makes its `@ts-expect-error` an error.
 */
const noOptions = { type: 'object', properties: {} } as const
const base = { name: 'mistaken', summary: 'Is wrong.', options: noOptions } as const

export const mistakes: readonly AnyPlugin[] = [
  definePlugin({
    ...base,
    reads: ['request'],
    create: () => (call, next) => {
      // @ts-expect-error the plugin does not declare that it reads the account
      void call.context.account
      return next(call)
    },
  }),
  definePlugin({
    ...base,
    // @ts-expect-error no plugin has declared a context key of this name
    reads: ['acount'],
    create: () => (call, next) => next(call),
  }),
  definePlugin({
    ...base,
    writes: ['account'],
    // @ts-expect-error the declared context is not written
    create: () => (call, next) => next(call),
  }),
  definePlugin({
    ...base,
    reads: ['key'],
    writes: ['account'],
    // @ts-expect-error another key is written than the declared one
    create: () => (call, next) => next(withContext(call, { key: call.context.key })),
  }),
  definePlugin({
    ...base,
    options: { type: 'object', properties: { calls: { type: 'integer', default: 1, description: 'Calls.' } } },
    // @ts-expect-error the option is named calls
    create({ cals }) {
      void cals
      return (call, next) => next(call)
    },
  }),
  definePlugin({
    ...base,
    options: { type: 'object', properties: { calls: { type: 'integer', description: 'Calls.' } } },
    create({ calls }) {
      // @ts-expect-error without a default, an option that is not required may be absent
      void calls.toFixed()
      return (call, next) => next(call)
    },
  }),
  definePlugin({
    ...base,
    options: { type: 'object', properties: { wait: { type: 'string', format: 'duration', default: '1s', description: 'Wait.' } } },
    create({ wait }) {
      // @ts-expect-error a duration arrives as a number of ms
      void wait.endsWith('s')
      return (call, next) => next(call)
    },
  }),
  definePlugin({
    ...base,
    // @ts-expect-error every option is described
    options: { type: 'object', properties: { calls: { type: 'integer' } } },
    create: () => (call, next) => next(call),
  }),
  definePlugin({
    ...base,
    // @ts-expect-error a handler returns a reply
    create: () => async (call, next) => {
      await next(call)
    },
  }),
  definePlugin({
    ...base,
    // @ts-expect-error create() must not be async
    create: async () => (call, next) => next(call),
  }),
  definePlugin({
    ...base,
    // @ts-expect-error the table of errors has no such row
    create: () => async () => refuse('forbiden'),
  }),
  definePlugin({
    ...base,
    reads: ['request'],
    create: () => (call, next) => {
      // @ts-expect-error calls are never changed: pass a changed copy on
      call.context.request.method = 'eth_call'
      return next(call)
    },
  }),
  definePlugin({
    ...base,
    create(_options, { metrics }) {
      const metric = { name: 'tollgate_x_total', type: 'counter', help: 'X.', labels: ['network', 'reason'] } as const
      // @ts-expect-error the label `reason` has no value
      void metrics.counter(metric, {})
      // @ts-expect-error it is a counter
      void metrics.gauge(metric, { reason: 'any' })
      return (call, next) => next(call)
    },
  }),
  definePlugin({
    ...base,
    // @ts-expect-error this Tollgate has version 1 of the plugin API
    apiVersion: 2,
    create: () => (call, next) => next(call),
  }),
  definePlugin({
    ...base,
    // @ts-expect-error true, or absent
    terminal: false,
    create: () => (call, next) => next(call),
  }),
]
