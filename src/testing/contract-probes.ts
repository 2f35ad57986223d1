import { definePlugin, refuse } from '../plugin/plugin.ts'
import type { AnyPlugin, Call, Json, Reply } from '../plugin/plugin.ts'
import { deepFreeze } from '../util/memoize.ts'
import { harness } from './harness.ts'
import type { HarnessOptions } from './harness.ts'
import type { CallerOptions, Harness } from './network-harness.ts'

export interface ContractCall extends CallerOptions {
  readonly method: string
  readonly params?: Json
}

/** What became of calls through a plugin. */
export interface ObservedCalls {
  /** The outcome of a call, by what the plugins below returned; `afterBug` is the call after one for which they threw. */
  readonly outcomes: Readonly<Record<'result' | 'failure' | 'nodeError' | 'afterBug', string>>
  /** What the plugins below found; undefined when no call got there. */
  readonly contextBelow: Readonly<Record<string, unknown>> | undefined
  /** The messages of the log. */
  readonly log: readonly string[]
}

const defaultCall: ContractCall = { method: 'eth_blockNumber' }

/** Makes the same call four times, while the plugins below return one thing after the other. */
export const observeCalls = async (
  plugin: AnyPlugin,
  options: HarnessOptions,
  { method, params = [], ...caller }: ContractCall = defaultCall,
): Promise<ObservedCalls> => {
  const below = new PluginBelow()
  const isTerminal = plugin.terminal === true
  const gateway = await harness({
    ...options,
    pipeline: ['- frozen-calls: {}', options.pipeline, ...(isTerminal ? [] : ['- observed: {}'])].join('\n'),
    plugins: [frozenCalls, ...(options.plugins ?? []), below.plugin],
  })
  const callWith = async (behavior: Behavior): Promise<string> => {
    below.behavior = behavior
    // What one call has left behind, as a cached answer, is not what the next one is about.
    await gateway.advance(pauseBetweenCallsMs)
    return describeOutcome(gateway.log.lines, await gateway.call(method, params, caller))
  }
  const outcomes = {
    result: await callWith('result'),
    failure: await callWith('failure'),
    nodeError: await callWith('nodeError'),
    afterBug: (await callWith('bug'), await callWith('result')),
  }
  const log = gateway.log.lines.map(({ message }) => message)
  await gateway.stop()
  return { outcomes, contextBelow: below.context, log }
}

const pauseBetweenCallsMs = 120_000

/** Throws with the stack of a bug of the plugin, which the outcome alone would not tell. */
const describeOutcome = (lines: Harness['log']['lines'], { outcome }: { readonly outcome: string }): string => {
  const bug = lines.find(({ message, fields }) => message === 'internal error' && 'plugin' in fields && fields.plugin !== 'observed')
  if (bug !== undefined && 'stack' in bug.fields) throw new Error(`the plugin failed: ${String(bug.fields.stack)}`)
  return outcome
}

/** Whoever changes a frozen call, throws. */
const frozenCalls = definePlugin({
  name: 'frozen-calls',
  summary: 'Freezes calls.',
  options: { type: 'object', properties: {} },
  create: () => (call, next) => next(Object.freeze({ ...call, context: deepFreeze({ ...call.context }) })),
})

type Behavior = 'result' | 'failure' | 'nodeError' | 'bug'

/** Stands in for the plugins below. */
class PluginBelow {
  behavior: Behavior = 'result'
  context: Readonly<Record<string, unknown>> | undefined

  readonly plugin = definePlugin({
    name: 'observed',
    summary: 'Returns what a test wants to see handled.',
    options: { type: 'object', properties: {} },
    terminal: true,
    create: () => async call => this.#reply(call),
  })

  #reply({ context }: Call): Reply {
    this.context = context
    switch (this.behavior) {
      case 'result':
        return { result: Buffer.from('"0x1"'), source: 'node' }
      case 'failure':
        return refuse('unavailable', { source: 'node' })
      case 'nodeError':
        return { error: { code: -32000, message: 'execution reverted' }, kind: 'node', fault: 'caller', source: 'node', status: 200 }
      case 'bug':
        throw new Error('a bug below')
    }
  }
}
