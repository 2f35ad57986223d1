import assert from 'node:assert/strict'
import { schemaError } from '../config/check-options.ts'
import { isKebabCase } from '../config/formats.ts'
import { formatProblems } from '../config/problem.ts'
import { buildNetwork } from '../core/network.ts'
import type { Network } from '../core/network.ts'
import { dryRunNetworks } from '../core/dry-run.ts'
import type { AnyPlugin, Json } from '../plugin/plugin.ts'
import type { Path } from '../util/json.ts'
import type { Schema } from '../plugin/options-schema.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import { jsonPointer } from '../util/json-path.ts'
import { defaultCall, observeCalls } from './contract-probes.ts'
import type { ContractCall, ObservedCalls } from './contract-probes.ts'
import { openFakeServices } from './fake-services.ts'
import { harness, readPipelineConfig } from './harness.ts'
import type { HarnessOptions } from './harness.ts'
import type { SuppliedContext } from './supplement-pipeline.ts'
import { TestClock } from './test-clock.ts'
import { TestLog } from './test-log.ts'

export interface ContractOptions {
  /** Options of the plugin, as in a network file; none unless given. */
  readonly options?: Readonly<Record<string, Json>>
  /** Values of the context keys that the plugin reads, where they are keys of plugins. */
  readonly context?: SuppliedContext
  /** A call that the plugin passes on, or answers where it is terminal; eth_blockNumber unless given. */
  readonly call?: ContractCall
}

/** A test for any test runner: `run` rejects with what the plugin breaks of the contract. */
export interface ContractTest {
  readonly name: string
  /** The tests after it cannot pass where it fails: the plugin cannot be created. */
  readonly isPrerequisite: boolean
  run(): Promise<void>
}

/** What every plugin must fulfill, as tests: `for (const { name, run } of contractTests(plugin)) test(name, run)`. */
export const contractTests = (plugin: AnyPlugin, options: ContractOptions = {}): readonly ContractTest[] =>
  Object.entries(plugin.terminal === true ? rules : { ...rules, ...passingRules }).map(([name, check]) => ({
    name: `${plugin.name}: ${name}`,
    isPrerequisite: name === optionsRule || name === createRule,
    run: async () => check(plugin, options),
  }))

type ContractRule = (plugin: AnyPlugin, options: ContractOptions) => void | Promise<void>

const optionsRule = 'the options, with their defaults, pass the schema'
const createRule = 'create() returns a handler or a stage at once, and asks no store and no node'

const rules: Readonly<Record<string, ContractRule>> = {
  'the name is kebab-case': ({ name }) => assert.ok(isKebabCase(name), name),
  'the summary is one sentence': ({ summary }) => assert.match(summary, sentencePattern),
  'the schema of the options is valid in strict mode': ({ options }) => assert.equal(schemaError(options), undefined),
  'every option is described by a sentence': ({ options }) => assert.deepEqual(undescribedOptions(options), []),
  [optionsRule]: async (plugin, options) => void (await readPipelineConfig(harnessOptionsOf(plugin, options))),
  [createRule]: async (plugin, options) => {
    const config = await readPipelineConfig(harnessOptionsOf(plugin, options))
    const problems = await dryRunNetworks({ gateway: undefined, networks: [config], unserved: [], problems: [], warnings: [] })
    assert.ok(problems.length === 0, formatProblems(problems))
  },
  'stop() is safe without start()': (plugin, options) => withNetwork(plugin, options, network => network.stop()),
  'stop() is safe twice, and leaves no timer': (plugin, options) =>
    withNetwork(plugin, options, async network => {
      await network.start()
      await network.stop()
      await network.stop()
    }),
  'a call is answered, and is left unchanged': async (plugin, options) => {
    const { outcomes } = await observe(plugin, options)
    assert.notEqual(outcomes.result, 'internal')
  },
  'the bytes of a result are not used again': async (plugin, options) => {
    const { hasReusedBytes } = await observe(plugin, options)
    assert.ok(!hasReusedBytes, 'each result needs bytes of its own')
  },
}

/** The rules for a plugin that passes calls on. */
const passingRules: Readonly<Record<string, ContractRule>> = {
  'next() is called once for a call, or the plugin has `repeats`': async (plugin, options) => {
    const { mostRunsBelow } = await observe(plugin, options)
    assert.ok(plugin.repeats === true || mostRunsBelow <= 1, 'a second next() needs `repeats: true`')
  },
  'the context that is declared in `writes` is written': async (plugin, options) => {
    const { contextBelow, outcomes } = await observe(plugin, options)
    const written: readonly string[] = plugin.writes ?? []
    if (contextBelow === undefined)
      assert.fail(`no call reached the plugins below: it ended as ${outcomes.result}; give a \`call\` that is passed on`)
    assert.deepEqual(
      written.filter(key => contextBelow[key] === undefined),
      [],
    )
  },
  'a reply from below is left unchanged': async (plugin, options) => {
    const { hasChangedBytesBelow } = await observe(plugin, options)
    assert.ok(!hasChangedBytesBelow, 'the bytes of a result belong to other callers too: change a copy')
  },
  'a failure from below is passed on, or answered in another way': async (plugin, options) => {
    const { outcomes } = await observe(plugin, options)
    assert.notEqual(outcomes.failure, 'internal')
    assert.notEqual(outcomes.nodeError, 'internal')
  },
  'offers() and explain() say that the call is passed on': async (plugin, options) => {
    const { method, key } = options.call ?? defaultCall
    const caller = key === undefined ? {} : { key }
    const gateway = await harness(harnessOptionsOf(plugin, options))
    const isOffered = await gateway.offers(method, caller)
    const explanation = (await gateway.explain(method, caller)).find(stage => stage.plugin === plugin.name)
    await gateway.stop()
    assert.ok(isOffered, `offers() says that the plugin refuses ${method}`)
    assert.equal(explanation?.ends, undefined, `explain() says that the call is ${explanation?.ends}`)
    for (const sentence of explanation?.text ?? []) assert.doesNotMatch(sentence, /\.$/, 'the text of explain() has no full stops')
  },
  'a bug below costs its call only': async (plugin, options) => {
    const { outcomes } = await observe(plugin, options)
    assert.equal(outcomes.afterBug, outcomes.result)
  },
}

const sentencePattern = /^[^\n]+[.!?]$/

const undescribedOptions = (schema: Schema, path: Path = []): readonly string[] => {
  const own = path.length === 0 || sentencePattern.test(schema.description ?? '') ? [] : [jsonPointer(path)]
  const children = schema.type === 'object' ? Object.entries(schema.properties ?? {}) : []
  return [...own, ...children.flatMap(([name, child]) => undescribedOptions(child, [...path, name]))]
}

const harnessOptionsOf = (plugin: AnyPlugin, { options = {}, context = {} }: ContractOptions): HarnessOptions => ({
  pipeline: `- ${JSON.stringify({ [plugin.name]: options })}`,
  plugins: [plugin],
  context,
})

const observe = async (plugin: AnyPlugin, options: ContractOptions): Promise<ObservedCalls> =>
  observeCalls(plugin, harnessOptionsOf(plugin, options), options.call)

/** Runs `use` with a network that was not started; fails with what it logged as an error, and with timers that are left. */
const withNetwork = async (plugin: AnyPlugin, options: ContractOptions, use: (network: Network) => Promise<void>): Promise<void> => {
  const [clock, log] = [new TestClock(), new TestLog()]
  const config = await readPipelineConfig(harnessOptionsOf(plugin, options))
  const { services } = await openFakeServices(config, { clock, log, metrics: createMetricsRegistry(), requests: [] })
  const timersBefore = clock.timerCount
  const { network, problems } = await buildNetwork(config, services)
  if (network === undefined) assert.fail(formatProblems(problems))
  await use(network)
  const errors = log.lines.filter(({ level }) => level === 'error')
  assert.deepEqual(
    errors.map(({ message, fields }) => ({ message, ...fields })),
    [],
  )
  assert.equal(clock.timerCount, timersBefore, 'stop() must cancel the timers of the plugin')
}
