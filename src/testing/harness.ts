import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { plugins as builtInPlugins } from '../../plugins/index.ts'
import { checkOrder } from '../config/pipeline-order.ts'
import { readPipeline } from '../config/network-config.ts'
import { formatProblems } from '../config/problem.ts'
import type { StepDraft } from '../config/steps.ts'
import type { NetworkConfig, Step } from '../config/types.ts'
import { parseYamlFile } from '../config/yaml-file.ts'
import type { YamlFile } from '../config/yaml-file.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { compileTable } from '../services/method-table/compile-table.ts'
import type { CompiledTable } from '../services/method-table/table-types.ts'
import type { WorldOptions } from './fake-services.ts'
import { openNetworkHarness } from './network-harness.ts'
import type { Harness } from './network-harness.ts'
import { supplementPipeline } from './supplement-pipeline.ts'
import type { SuppliedContext } from './supplement-pipeline.ts'
import { didYouMean } from '../util/did-you-mean.ts'

export interface HarnessOptions extends WorldOptions {
  /**
   * The steps of a pipeline as a network file lists them, or only those that a test is about: context that no step writes
   * is supplied, and behind the last step calls go upstream.
   */
  readonly pipeline: string
  /** Plugins that steps may name besides the built-in ones. */
  readonly plugins?: readonly AnyPlugin[]
  /** What `use: ./file.js` is relative to: a folder, or the `import.meta.url` of a test; the current folder unless given. */
  readonly folder?: string | URL
  /** Values of context keys that no step writes. */
  readonly context?: SuppliedContext
  readonly network?: Partial<Pick<NetworkConfig, 'name' | 'chainId' | 'blockTime' | 'devNode'>>
  /** The variables of the pipeline. */
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a pipeline with the real gateway around it. Throws with all problems of the pipeline, each with a caret. */
export const harness = async (options: HarnessOptions): Promise<Harness> => {
  const unknown = Object.keys(options).find(name => !harnessOptions.includes(name))
  if (unknown !== undefined) {
    const hint = didYouMean(unknown, harnessOptions) ?? `the options are ${harnessOptions.join(', ')}`
    throw new TypeError(`harness() has no option \`${unknown}\`: ${hint}`)
  }
  return openNetworkHarness(await readPipelineConfig(options), options)
}

/** By name: a test in JavaScript may misspell one. */
const harnessOptions: readonly string[] = Object.keys({
  pipeline: true,
  plugins: true,
  folder: true,
  context: true,
  network: true,
  env: true,
  upstream: true,
  upstreams: true,
  keys: true,
  plans: true,
  clock: true,
} satisfies Record<keyof HarnessOptions, true>)

/** The network that has the pipeline. */
export const readPipelineConfig = async (options: HarnessOptions): Promise<NetworkConfig> => {
  const { plugins = [], env = {} } = options
  const source = parseYamlFile(toNetworkYaml(options.pipeline), join(folderOf(options.folder), 'pipeline.yaml'), env)
  throwProblems(source.problems)
  const drafts = await readPipeline(source, [...plugins, ...builtInPlugins])
  throwProblems(drafts.flatMap(draft => draft.problems))
  const { above, below } = supplementPipeline(drafts, options.context ?? {})
  const ordered = [...above, ...drafts.map(asExternal(plugins)), ...below]
  throwProblems(checkOrder(ordered, builtInPlugins))
  return toNetworkConfig(options, source, ordered)
}

const toNetworkConfig = (
  { network = {} }: HarnessOptions,
  { file }: YamlFile,
  drafts: readonly Pick<StepDraft, 'step'>[],
): NetworkConfig => ({
  name: 'test-network',
  chainId: 31337,
  blockTime: 1_000,
  devNode: false,
  ...network,
  file,
  hosts: ['127.0.0.1'],
  methods: readShippedTable(),
  steps: drafts.flatMap(({ step }) => step ?? []),
})

const throwProblems = (problems: Parameters<typeof formatProblems>[0]): void => {
  if (problems.length > 0) throw new Error(`the pipeline has problems:\n\n${formatProblems(problems)}`)
}

/** The list as the value of `pipeline`, on lines with the same numbers where the text begins with an empty line. */
const toNetworkYaml = (pipeline: string): string => {
  const lines = pipeline.split('\n').filter((line, i) => i === 0 || line.trim() !== '')
  const [first = '', ...rest] = lines
  const list = first.trim() === '' ? rest : lines
  // A list in brackets must be indented.
  return first.trim().startsWith('pipeline:') ? lines.join('\n') : ['pipeline:', ...list].join(list[0]?.startsWith('[') ? '\n ' : '\n')
}

const folderOf = (folder: string | URL = '.'): string =>
  folder instanceof URL || folder.startsWith('file:') ? fileURLToPath(new URL('.', folder)) : resolve(folder)

/** Plugins of tests that look at all of a call: they are held to nothing. */
export const probes = new WeakSet<AnyPlugin>()

/** The gateway holds plugins of others to what they promise; those that a test passes as objects have no file. */
const asExternal =
  (plugins: readonly AnyPlugin[]) =>
  (draft: StepDraft): StepDraft => {
    const { step } = draft
    if (step === undefined || step.file !== undefined || !plugins.includes(step.plugin) || probes.has(step.plugin)) return draft
    // A call that is never answered fails the test.
    const external: Step = { timeoutMs: Infinity, ...step, file: { path: '', shownAs: step.plugin.name } }
    return { ...draft, step: external }
  }

const tableFile = new URL('../../../configs/methods/ethereum.yaml', import.meta.url)

let shippedTable: CompiledTable | undefined

const readShippedTable = (): CompiledTable => {
  if (shippedTable !== undefined) return shippedTable
  const path = fileURLToPath(tableFile)
  shippedTable = compileTable(parseYamlFile(readFileSync(path, 'utf8'), path).value).table
  if (shippedTable === undefined) throw new Error(`${path} has problems`)
  return shippedTable
}
