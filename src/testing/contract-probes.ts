import { definePlugin, isFailure, refuse, toBuffer } from '../plugin/plugin.ts'
import type { AnyPlugin, Call, Json, Reply } from '../plugin/plugin.ts'
import { deepFreeze } from '../util/memoize.ts'
import { harness, probes } from './harness.ts'
import type { HarnessOptions } from './harness.ts'
import { toCallResponse } from './network-harness.ts'
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
  /** How often one call reached the plugins below, at most. */
  readonly mostRunsBelow: number
  /** What the plugins below have returned has other bytes now. */
  readonly hasChangedBytesBelow: boolean
  /** A result that the plugin has returned has other bytes since the next call. */
  readonly hasReusedBytes: boolean
}

/** Unless a test gives another. */
export const defaultCall: ContractCall = { method: 'eth_blockNumber' }

/** Makes the same call four times, while the plugins below return one thing after the other. */
export const observeCalls = async (
  plugin: AnyPlugin,
  options: HarnessOptions,
  { method, params = [], ...caller }: ContractCall = defaultCall,
): Promise<ObservedCalls> => {
  const below = new PluginBelow()
  const isTerminal = plugin.terminal === true
  for (const probe of [frozenCalls, below.plugin]) probes.add(probe)
  const gateway = await harness({
    ...options,
    pipeline: ['- frozen-calls: {}', options.pipeline, ...(isTerminal ? [] : ['- observed: {}'])].join('\n'),
    plugins: [frozenCalls, ...(options.plugins ?? []), below.plugin],
  })
  const returned: { readonly reply: Reply; readonly text: string | undefined }[] = []
  const callWith = async (behavior: Behavior): Promise<string> => {
    below.beginCall(behavior)
    // What one call has left behind, as a cached answer, is not what the next one is about.
    await gateway.advance(pauseBetweenCallsMs)
    const response = await gateway.send({ jsonrpc: '2.0', id: 1, method, params }, caller)
    returned.push(...response.replies.map(reply => ({ reply, text: textOf(reply) })))
    return describeOutcome(gateway.log.lines, toCallResponse(response))
  }
  const outcomes = {
    result: await callWith('result'),
    failure: await callWith('failure'),
    nodeError: await callWith('nodeError'),
    afterBug: (await callWith('bug'), await callWith('result')),
  }
  await gateway.stop()
  return {
    outcomes,
    contextBelow: below.context,
    mostRunsBelow: below.mostRuns,
    hasChangedBytesBelow: below.hasChangedBytes,
    hasReusedBytes: returned.some(({ reply, text }) => textOf(reply) !== text),
  }
}

/** Of the result in a reply; undefined for a failure. */
const textOf = (reply: Reply): string | undefined => (isFailure(reply) ? undefined : toBuffer(reply.result).toString('latin1'))

const pauseBetweenCallsMs = 120_000

/** Throws with the stack of a bug of the plugin, which the outcome alone would not tell. */
const describeOutcome = (lines: Harness['log']['lines'], { outcome }: { readonly outcome: string }): string => {
  const bug = lines.find(({ message, fields }) => message === 'internal error' && 'plugin' in fields && fields.plugin !== 'observed')
  if (bug !== undefined && 'stack' in bug.fields) throw new Error(`the plugin failed: ${String(bug.fields.stack)}`)
  return outcome
}

/** Whoever changes a frozen call, or its request, throws. */
const frozenCalls = definePlugin({
  name: 'frozen-calls',
  summary: 'Freezes calls.',
  options: { type: 'object', properties: {} },
  create: () => (call, next) =>
    next(Object.freeze({ ...call, message: deepFreeze(call.message), context: deepFreeze({ ...call.context }) })),
})

type Behavior = 'result' | 'failure' | 'nodeError' | 'bug'

const resultBelow = '"0x1"'

/** Stands in for the plugins below. Its replies are frozen, as other callers might get them too; bytes cannot be. */
class PluginBelow {
  context: Readonly<Record<string, unknown>> | undefined
  mostRuns = 0
  #behavior: Behavior = 'result'
  #runs = 0
  readonly #results: Buffer[] = []

  readonly plugin = definePlugin({
    name: 'observed',
    summary: 'Returns what a test wants to see handled.',
    options: { type: 'object', properties: {} },
    terminal: true,
    create: () => async call => deepFreeze(this.#reply(call)),
  })

  get hasChangedBytes(): boolean {
    return this.#results.some(result => result.toString() !== resultBelow)
  }

  beginCall(behavior: Behavior): void {
    this.#behavior = behavior
    this.#runs = 0
  }

  #reply({ context }: Call): Reply {
    this.context = context
    this.#runs += 1
    this.mostRuns = Math.max(this.mostRuns, this.#runs)
    switch (this.#behavior) {
      case 'result': {
        const result = Buffer.from(resultBelow)
        this.#results.push(result)
        return { result, source: 'node' }
      }
      case 'failure':
        return refuse('unavailable', { source: 'node' })
      case 'nodeError':
        return { error: { code: -32000, message: 'execution reverted' }, kind: 'node', fault: 'caller', source: 'node', status: 200 }
      case 'bug':
        throw new Error('a bug below')
    }
  }
}
