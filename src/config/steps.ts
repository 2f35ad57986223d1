import type { AnyPlugin } from '../plugin/plugin.ts'
import type { StepSyntax } from './step-syntax.ts'
import { readStepSyntax } from './step-syntax.ts'
import { isComplete } from './optional-variables.ts'
import { checkOptions } from './check-options.ts'
import type { OrderedStep } from './pipeline-order.ts'
import { loadPlugin } from './plugin-loader.ts'
import { jsonPointer } from './path.ts'
import { didYouMean, closestMatch } from '../util/did-you-mean.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'
import type { Step } from './types.ts'

/** One step of a pipeline, as far as it could be read. */
export interface StepDraft extends OrderedStep {
  /** There when nothing is wrong or missing. */
  readonly step?: Step
  readonly problems: readonly Problem[]
  /** As in Checked. */
  readonly omitted: readonly string[]
  readonly missingVariables: readonly string[]
}

/** Where a step stands. */
export interface StepReadContext {
  readonly source: YamlFile
  /** The plugins that come with the gateway. */
  readonly plugins: readonly AnyPlugin[]
  readonly optional: boolean
}

/** Reads the step at this position of the pipeline, and loads its plugin when that comes from outside. */
export const readStep = async (index: number, context: StepReadContext): Promise<StepDraft> => {
  const { source, optional } = context
  const syntax = readStepSyntax(source, index)
  const { plugin, problem } = await findPlugin(syntax, context)
  const name = syntax.name ?? plugin?.name ?? (syntax.pluginName || 'this step')
  // Nobody can tell what an unknown plugin does without; so its unset variables are not held against it.
  const checked = plugin
    ? checkStepOptions(plugin, name, syntax, context)
    : { problems: [], missingVariables: [], omitted: optional ? [jsonPointer(['pipeline', index])] : [] }
  const problems = [...syntax.problems, ...(problem ? [problem] : checked.problems)]
  const { step, ...rest } = checked
  return {
    ...rest,
    name,
    plugin,
    problems,
    ...(step && problems.length === 0 && { step }),
    problemAtStep: (message, hint) => source.problemAtKey(syntax.namePath, source.maskValues(message), hint),
  }
}

/** With a problem, the plugin is what was probably meant. */
interface FoundPlugin {
  readonly plugin: AnyPlugin | undefined
  readonly problem?: Problem
}

const findPlugin = async (form: StepSyntax, { source, plugins }: StepReadContext): Promise<FoundPlugin> => {
  const { pluginName, namePath, isExternal } = form
  const plugin = plugins.find(({ name }) => name === pluginName)
  if (plugin !== undefined || pluginName === '') return { plugin }
  const names = plugins.map(({ name }) => name)
  if (isExternal) {
    const loaded = await loadPlugin(pluginName, source.path)
    if ('plugin' in loaded) return loaded
    const hint = didYouMean(pluginName, names) ?? source.maskValues(loaded.hint ?? '')
    return { plugin: undefined, problem: source.problemAt(namePath, source.maskValues(loaded.schemaProblem), hint) }
  }
  const closest = closestMatch(pluginName, names)
  const hint = /^[./@]|\.js$/.test(pluginName)
    ? `write \`- use: ${pluginName}\``
    : (didYouMean(pluginName, names) ?? `known are: ${names.join(', ')}`)
  return {
    plugin: plugins.find(({ name }) => name === closest),
    problem: source.problemAtKey(namePath, `there is no plugin \`${pluginName}\``, hint),
  }
}

type CheckedStep = Pick<StepDraft, 'step' | 'problems' | 'omitted' | 'missingVariables'>

const checkStepOptions = (plugin: AnyPlugin, name: string, syntax: StepSyntax, { source, optional }: StepReadContext): CheckedStep => {
  const location = { source, namePath: syntax.optionsPath, owner: source.maskValues(name), schema: plugin.options }
  const { options, problems, omitted, missingVariables } = checkOptions(location, { optional })
  if (options === undefined || !isComplete(source, syntax.optionsPath, omitted)) return { problems, omitted, missingVariables }

  const step: Step = {
    name,
    plugin,
    options,
    problemAt: (path, message) =>
      path.length === 0
        ? source.problemAtKey(syntax.namePath, source.maskValues(message))
        : source.problemAt([...syntax.optionsPath, ...path], source.maskValues(message)),
  }
  const ruleProblems: Problem[] = []
  try {
    // Checked against its own schema just now.
    plugin.check?.(options as never, (path, message) => ruleProblems.push(step.problemAt(path, `${name}: ${message}`)))
  } catch (error) {
    ruleProblems.push(step.problemAt([], `${name}: its options cannot be checked: ${String(error)}`))
  }
  return { step, problems: ruleProblems, omitted, missingVariables }
}
