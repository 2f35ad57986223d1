import { countNoun } from '../config/problem.ts'
import { parseYamlFile } from '../config/yaml-file.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import type { AnyPlugin, Json } from '../plugin/plugin.ts'
import type { ContractCall } from '../testing/contract-probes.ts'
import type { ContractOptions, ContractTest } from '../testing/contract-tests.ts'
import { isJsonObject } from '../util/json.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'
import { commonOptions, readArguments } from './args.ts'
import type { Subcommand } from './args.ts'
import { UsageError, exitCodes } from './command.ts'
import type { CommandOption } from './command.ts'
import { findPlugin, requiredOptions } from './find-plugin.ts'

export const testPluginOptions = {
  with: {
    type: 'string',
    placeholder: 'OPTIONS',
    description: 'With test: the options of the plugin, as in a network file; the examples of those that it requires unless given.',
  },
  context: { type: 'string', placeholder: 'VALUES', description: "With test: values of context keys that other authors' plugins write." },
  call: {
    type: 'string',
    placeholder: 'CALL',
    description: 'With test: a method that the plugin passes on, eth_blockNumber unless given; or { method, params, headers }.',
  },
} as const satisfies Readonly<Record<string, CommandOption>>

/** `plugins test`: the contract tests of `tollgate/testing`. */
export const createTestPlugin =
  (builtIn: readonly LoadablePlugin[]): Subcommand =>
  async (args, { env, out, styleOut }) => {
    const {
      positionals: [name],
      values: { with: options, context, call, json, config },
    } = readArguments(args, ['NAME'], { ...testPluginOptions, ...commonOptions })
    const given = {
      options: readMap('with', options),
      context: readMap('context', context),
      call: readCall(call),
    }
    const { plugin } = await findPlugin(name, builtIn, config, env)
    // Loaded here alone: the other subcommands need no gateway.
    const { contractTests } = await import('../testing/contract-tests.ts')
    const tests = contractTests(plugin, toContractOptions(plugin, given))
    const results = await runTests(tests, json ? () => undefined : printResult(out, styleOut))
    const failed = results.filter(({ problem }) => problem !== undefined).length
    const notRun = tests.length - results.length
    if (json) out(JSON.stringify(results))
    else out(`${countNoun(results.length - failed, 'test')} passed, ${failed} failed${notRun === 0 ? '' : `, ${notRun} not run`}`)
    return failed === 0 ? exitCodes.ok : exitCodes.failed
  }

interface TestResult {
  readonly name: string
  /** What the plugin breaks of the contract; undefined when the test passed. */
  readonly problem?: string
}

const runTests = async (tests: readonly ContractTest[], report: (result: TestResult) => void): Promise<readonly TestResult[]> => {
  const results: TestResult[] = []
  for (const { name, isPrerequisite, run } of tests) {
    const problem = await run().then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    )
    const result: TestResult = { name, ...(problem !== undefined && { problem }) }
    report(result)
    results.push(result)
    if (isPrerequisite && problem !== undefined) break
  }
  return results
}

/** One bug may fail many tests: it is printed once. */
const printResult = (out: (line: string) => void, style: Style = plain): ((result: TestResult) => void) => {
  const printed = new Set<string>()
  return ({ name, problem }) => {
    if (problem === undefined) return out(`${style('ok', 'ok')}      ${name}`)
    out(`${style('error', 'failed')}  ${name}${printed.has(problem) ? ': as above' : ''}`)
    if (!printed.has(problem)) for (const line of problem.split('\n')) out(`          ${line}`.trimEnd())
    printed.add(problem)
  }
}

interface GivenOptions {
  readonly options: JsonMap | undefined
  readonly context: JsonMap | undefined
  readonly call: ContractCall | undefined
}

const toContractOptions = (plugin: AnyPlugin, { options, context, call }: GivenOptions): ContractOptions => ({
  options: options ?? exampleOptions(plugin),
  ...(context && { context }),
  ...(call && { call }),
})

const exampleOptions = (plugin: AnyPlugin): JsonMap =>
  // The examples of a schema are JSON.
  Object.fromEntries(requiredOptions(plugin).flatMap(({ path, examples: [first] }) => (first === undefined ? [] : [[path, first as Json]])))

type JsonMap = Readonly<Record<string, Json>>

const readMap = (option: string, text: string | undefined): JsonMap | undefined => {
  if (text === undefined) return undefined
  const value = readYaml(option, text)
  if (!isJsonObject(value)) throw new UsageError(`--${option} must be a map, such as '{ calls: 1 }'`)
  return value
}

const readCall = (text: string | undefined): ContractCall | undefined => {
  if (text === undefined) return undefined
  const value = readYaml('call', text)
  if (typeof value === 'string') return { method: value }
  if (!isJsonObject(value) || typeof value['method'] !== 'string')
    throw new UsageError("--call must be a method, or a map such as '{ method: eth_call, params: [{}, latest] }'")
  // Its other members are checked as the call is made, as those of a test in JavaScript are.
  return value as unknown as ContractCall
}

const readYaml = (option: string, text: string): Json => {
  const { value, problems } = parseYamlFile(text, `--${option}`)
  if (problems[0] !== undefined) throw new UsageError(`--${option}: ${problems[0].message}`)
  // What YAML without tags and dates consists of.
  return value as Json
}
