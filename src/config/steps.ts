import type { AnyPlugin } from '../plugin.ts'
import type { Form } from './form.ts'
import { readForm } from './form.ts'
import { isWhole } from './leave-out.ts'
import { checkOptions } from './options.ts'
import type { Placed } from './order.ts'
import { loadPlugin } from './outside.ts'
import { pointer } from './path.ts'
import { didYouMean, nearest } from '../nearest.ts'
import type { Problem } from './problem.ts'
import type { Source } from './source.ts'
import type { Step } from './types.ts'

/** One step of a pipeline, as far as it could be read. */
export interface Draft extends Placed {
  /** There when nothing is wrong or missing. */
  readonly step?: Step
  readonly problems: readonly Problem[]
  /** As in Checked. */
  readonly leftOut: readonly string[]
  readonly missing: readonly string[]
}

/** Where a step stands. */
export interface Setting {
  readonly source: Source
  /** The plugins that come with the gateway. */
  readonly plugins: readonly AnyPlugin[]
  readonly optional: boolean
}

/** Reads the step at this position of the pipeline, and loads its plugin when that comes from outside. */
export const readStep = async (index: number, setting: Setting): Promise<Draft> => {
  const { source, optional } = setting
  const form = readForm(source, index)
  const { plugin, problem } = await findPlugin(form, setting)
  const name = form.name ?? plugin?.name ?? (form.word || 'this step')
  // Nobody can tell what an unknown plugin does without; so its unset variables are not held against it.
  const tried = plugin
    ? tryOptions(plugin, name, form, setting)
    : { problems: [], missing: [], leftOut: optional ? [pointer(['pipeline', index])] : [] }
  const problems = [...form.problems, ...(problem ? [problem] : tried.problems)]
  const { step, ...rest } = tried
  return {
    ...rest,
    name,
    plugin,
    problems,
    ...(step && problems.length === 0 && { step }),
    problem: (message, hint) => source.problemAtKey(form.at, source.hide(message), hint),
  }
}

/** With a problem, the plugin is what was probably meant. */
interface FoundPlugin {
  readonly plugin: AnyPlugin | undefined
  readonly problem?: Problem
}

const findPlugin = async (form: Form, { source, plugins }: Setting): Promise<FoundPlugin> => {
  const { word, at, outside } = form
  const plugin = plugins.find(({ name }) => name === word)
  if (plugin !== undefined || word === '') return { plugin }
  const names = plugins.map(({ name }) => name)
  if (outside) {
    const loaded = await loadPlugin(word, source.path)
    if ('plugin' in loaded) return loaded
    const hint = didYouMean(word, names) ?? source.hide(loaded.hint ?? '')
    return { plugin: undefined, problem: source.problem(at, source.hide(loaded.fault), hint) }
  }
  const meant = nearest(word, names)
  const hint = /^[./@]|\.js$/.test(word) ? `write \`- use: ${word}\`` : (didYouMean(word, names) ?? `known are: ${names.join(', ')}`)
  return {
    plugin: plugins.find(({ name }) => name === meant),
    problem: source.problemAtKey(at, `there is no plugin \`${word}\``, hint),
  }
}

type Tried = Pick<Draft, 'step' | 'problems' | 'leftOut' | 'missing'>

const tryOptions = (plugin: AnyPlugin, name: string, form: Form, { source, optional }: Setting): Tried => {
  const site = { source, path: form.options, name: source.hide(name), schema: plugin.options }
  const { options, problems, leftOut, missing } = checkOptions(site, { optional })
  if (options === undefined || !isWhole(source, form.options, leftOut)) return { problems, leftOut, missing }

  const step: Step = {
    name,
    plugin,
    options,
    problem: (path, message) =>
      path.length === 0
        ? source.problemAtKey(form.at, source.hide(message))
        : source.problem([...form.options, ...path], source.hide(message)),
  }
  const found: Problem[] = []
  try {
    // Checked against its own schema just now.
    plugin.check?.(options as never, (path, message) => found.push(step.problem(path, `${name}: ${message}`)))
  } catch (bug) {
    found.push(step.problem([], `${name}: its options cannot be checked: ${String(bug)}`))
  }
  return { step, problems: found, leftOut, missing }
}
