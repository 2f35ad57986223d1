import type { ObjectSchema } from '../plugin/options-schema.ts'
import { toLoaded } from '../plugin/deferred-plugin.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import type { AnyPlugin, ReportProblem } from '../plugin/plugin.ts'
import type { Path } from '../util/json.ts'
import { defaultPluginTimeoutMs, describeBug } from '../plugin/plugin-fault.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import { isComplete, pathInFile } from './optional-variables.ts'
import { checkOptions } from './check-options.ts'
import type { OrderedStep } from './pipeline-order.ts'
import { loadPlugin } from './plugin-loader.ts'
import { closestMatch, formatSuggestion } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import { jsonPointer } from '../util/json-path.ts'
import { TimeLimitError, callWithTimeLimit } from '../util/time-limit.ts'
import { isSamePlace } from './problem.ts'
import type { Problem } from './problem.ts'
import type { SourcePlace } from './plugin-syntax-errors.ts'
import type { YamlFile } from './yaml-file.ts'
import type { Step } from './types.ts'
import { isKebabCase } from './formats.ts'

/** One step of a pipeline, as far as it could be read. */
export interface StepDraft extends OrderedStep {
  /** Present when there are no problems and no missing variables. */
  readonly step?: Step
  readonly problems: readonly Problem[]
  /** As in CheckedOptions; undefined for an unknown plugin. */
  readonly effective?: () => unknown
  readonly warnings: readonly Problem[]
  readonly omitted: readonly string[]
  readonly missingVariables: readonly string[]
}

/** What the steps of one pipeline have in common. */
interface StepReadContext {
  readonly source: YamlFile
  /** The built-in plugins. */
  readonly plugins: readonly LoadablePlugin[]
  readonly optional: boolean
}

/** Reads the step at this position of the pipeline, and loads an external plugin. */
export const readStep = async (index: number, context: StepReadContext): Promise<StepDraft> => {
  const { source, optional } = context
  const syntax = readStepSyntax(index, context)
  const { plugin, file, problem } = await findPlugin(syntax, context)
  const name = syntax.name ?? plugin?.name ?? (syntax.pluginName || 'this step')
  // Which options of an unknown plugin can be omitted is not known, so its unset variables are no problems.
  const checked = plugin
    ? checkStepOptions({ plugin, name, ...(file && { file }) }, syntax, context)
    : { problems: [], warnings: [], missingVariables: [], omitted: optional ? [jsonPointer(['pipeline', index])] : [] }
  // What is not a step at all needs no second problem about its name.
  const nameProblems = problem && !syntax.problems.some(other => isSamePlace(other, problem)) ? [problem] : []
  const problems = [...syntax.problems, ...(problem ? nameProblems : checked.problems)]
  const { step, ...rest } = checked
  return {
    ...rest,
    name,
    ...(syntax.isExternal && { use: source.maskValues(syntax.pluginName) }),
    plugin,
    problems,
    ...(step && problems.length === 0 && { step }),
    problemAtStep: (message, hint) => source.problemAtKey(syntax.namePath, source.maskValues(message), hint),
  }
}

/** With a problem, the plugin is the one that was probably meant. */
interface FoundPlugin {
  readonly plugin: AnyPlugin | undefined
  readonly file?: PluginFile
  readonly problem?: Problem
}

const findPlugin = async (syntax: StepSyntax, { source, plugins }: StepReadContext): Promise<FoundPlugin> => {
  const { pluginName, namePath, isExternal } = syntax
  const plugin = plugins.find(({ name }) => name === pluginName)
  if (plugin !== undefined) return { plugin: await toLoaded(plugin) }
  if (pluginName === '') return { plugin }
  const names = plugins.map(({ name }) => name)
  if (isExternal) {
    const loaded = await loadPlugin(pluginName, source.path)
    if ('plugin' in loaded) return loaded
    const hint = formatSuggestion(closestMatch(pluginName, names)) ?? source.maskValues(loaded.hint ?? '')
    const problem = source.problemAt(namePath, source.maskValues(loaded.reason), hint)
    return { plugin: undefined, problem: loaded.place === undefined ? problem : moveToPlugin(problem, loaded.place, source) }
  }
  const closest = closestMatch(pluginName, names)
  const meant = plugins.find(({ name }) => name === closest)
  const hint = /^[./@]|\.js$/.test(pluginName)
    ? `write \`- use: ${pluginName}\``
    : (formatSuggestion(closest) ?? `built-in plugins: ${names.join(', ')}`)
  return {
    plugin: meant && (await toLoaded(meant)),
    problem: source.problemAtKey(namePath, `unknown plugin \`${pluginName}\``, hint),
  }
}

/** The problem at its place in the plugin's own file; the hint says which step has the plugin. */
const moveToPlugin = (problem: Problem, place: SourcePlace, source: YamlFile): Problem => {
  const usedAt = `the plugin of ${problem.file}:${problem.line}:${problem.column}`
  return { ...problem, ...place, file: source.maskValues(place.file), hint: problem.hint ? `${problem.hint} (${usedAt})` : usedAt }
}

type CheckedStep = Pick<StepDraft, 'step' | 'effective' | 'problems' | 'warnings' | 'omitted' | 'missingVariables'>

const checkStepOptions = (
  { plugin, name, file }: Pick<Step, 'plugin' | 'name' | 'file'>,
  syntax: StepSyntax,
  { source, plugins, optional }: StepReadContext,
): CheckedStep => {
  const otherOptions = Object.fromEntries(plugins.map(({ name, options }) => [name, options]))
  const location = { source, namePath: syntax.optionsPath, owner: source.maskValues(name), schema: plugin.options, otherOptions }
  const { options, ...checked } = checkOptions(location, { optional })
  if (options === undefined || !isComplete(source, syntax.optionsPath, checked.omitted)) return checked

  const step: Step = {
    name,
    plugin,
    ...(file && { file }),
    ...(syntax.timeoutMs !== undefined && { timeoutMs: syntax.timeoutMs }),
    options,
    problemAt: (path, message) =>
      path.length === 0
        ? source.problemAtKey(syntax.namePath, source.maskValues(message))
        : source.problemAt(pathInFile([...syntax.optionsPath, ...path], checked.omitted), source.maskValues(message)),
  }
  // The options have just been checked against the plugin's schema.
  const problems = findProblems(step, 'check', report => plugin.check?.(options as never, report))
  return { ...checked, step, problems }
}

/** The drafts, with the problems that their plugins find in the other steps. */
export const checkAgainstOthers = (drafts: readonly StepDraft[]): readonly StepDraft[] =>
  drafts.map(draft => {
    const { step, ...rest } = draft
    if (step === undefined) return draft
    const others = drafts.flatMap(
      ({ step: other }) =>
        other === undefined || other === step
          ? []
          : [{ plugin: other.plugin.name, options: other.options as Readonly<Record<string, unknown>> }], // checked
    )
    const problems = findProblems(step, 'checkPipeline', report => step.plugin.checkPipeline?.(step.options as never, others, report))
    return problems.length === 0 ? draft : { ...rest, problems: [...draft.problems, ...problems] }
  })

/** What a rule of the plugin reports. */
const findProblems = (step: Step, rule: string, check: (report: ReportProblem) => void): readonly Problem[] => {
  const { name, file } = step
  const problems: Problem[] = []
  const run = () => check((path, message) => problems.push(step.problemAt(path, `${name}: ${message}`)))
  try {
    if (file === undefined) run()
    else callWithTimeLimit(checkTimeoutMs, run)
  } catch (error) {
    const failure = error instanceof TimeLimitError ? `${error.message} (${file?.shownAs})` : `failed: ${describeBug(error, file)}`
    problems.push(step.problemAt([], `${name}: ${rule}() of the plugin ${failure}`))
  }
  return problems
}

/** It is pure. A reload stops calls for as long. */
const checkTimeoutMs = 3_000

/** A step as the file writes it: `- NAME: { options }`, or `- use: NAME` with `with` and `name`. */
interface StepSyntax {
  /** The name of the plugin, its file or its package; empty when the step names none. */
  readonly pluginName: string
  /** The path of the key that is, or holds, `pluginName`. */
  readonly namePath: Path
  readonly optionsPath: Path
  /** `pluginName` may be a file or a package. */
  readonly isExternal: boolean
  /** The name that the step gives itself. */
  readonly name?: string
  readonly timeoutMs?: number
  readonly problems: readonly Problem[]
}

/** The keys of a step with `use`. */
export const useStepSchema = {
  type: 'object',
  description: 'An external plugin, or a second step with the same plugin.',
  properties: {
    use: {
      type: 'string',
      minLength: 1,
      description: 'A file relative to this one (./my-plugin.js), a package, or a built-in plugin.',
    },
    with: { description: 'The options of the plugin.' },
    name: {
      type: 'string',
      format: 'kebab-case',
      description: 'The name of the step, in kebab-case; required when two steps have the same plugin.',
    },
    timeout: {
      type: 'string',
      format: 'duration',
      minimum: '1s',
      default: `${defaultPluginTimeoutMs / 1000}s`,
      description: 'An external plugin that has not answered a call for so long is not waited for: the caller gets an internal error.',
    },
  },
  required: ['use'],
} as const satisfies ObjectSchema

/** Reads the syntax of the step at this position of the pipeline. */
const readStepSyntax = (index: number, context: StepReadContext): StepSyntax => {
  const { source } = context
  const stepPath = ['pipeline', index]
  const step = source.valueAt(stepPath)
  if (!isJsonObject(step)) return invalidStep(context, stepPath, step)
  const [pluginName, otherKey] = Object.keys(step)
  if (pluginName === undefined) return invalidStep(context, stepPath, step)
  if (Object.hasOwn(step, 'use')) return readUseStep(source, stepPath)
  const optionsPath = [...stepPath, pluginName]
  const problems = otherKey === undefined ? [] : [secondKeyProblem(source, stepPath, pluginName, otherKey)]
  return { pluginName, namePath: optionsPath, optionsPath, isExternal: false, problems }
}

const invalidStep = ({ source, plugins }: StepReadContext, stepPath: Path, step: unknown): StepSyntax => {
  // It is printed, so it must not come from the environment.
  const pluginName = source.expandedTexts.has(jsonPointer(stepPath)) ? '' : (source.textAt(stepPath) ?? '')
  const found = isJsonObject(step) ? 'an empty map' : source.describeValueAt(stepPath)
  const hint = bareStepHint(pluginName, plugins)
  const problem = source.problemAt(stepPath, `a step must be a map with one key, the plugin's name, not ${found}`, hint)
  return { pluginName, namePath: stepPath, optionsPath: [...stepPath, pluginName], isExternal: false, problems: [problem] }
}

/** The step that was probably meant by a text in place of one. */
const bareStepHint = (text: string, plugins: readonly LoadablePlugin[]): string => {
  const names = plugins.map(({ name }) => name)
  const meant = names.includes(text) ? text : closestMatch(text, names)
  if (meant !== undefined) return `write \`- ${meant}: {}\``
  if (text.endsWith('.js')) return `write \`- use: ${text}\``
  return isKebabCase(text) ? `write \`- use: ./${text}.js\` for an external plugin` : 'for example `- upstream: { timeout: 10s }`'
}

const secondKeyProblem = (source: YamlFile, stepPath: Path, pluginName: string, otherKey: string): Problem =>
  source.problemAtKey(
    [...stepPath, otherKey],
    `a step must have one key, the plugin's name, not both \`${pluginName}\` and \`${otherKey}\``,
    `indent \`${otherKey}\` more if it is an option of ${pluginName}`,
  )

const readUseStep = (source: YamlFile, stepPath: Path): StepSyntax => {
  const { options, problems } = checkOptions({ source, namePath: stepPath, owner: '', schema: useStepSchema })
  const name = source.textAt([...stepPath, 'name'])
  return {
    pluginName: source.textAt([...stepPath, 'use']) ?? '',
    namePath: [...stepPath, 'use'],
    optionsPath: [...stepPath, 'with'],
    isExternal: true,
    ...(name !== undefined && { name }),
    ...(options && { timeoutMs: options.timeout }),
    problems,
  }
}
