import type { ContextKey } from '../plugin/call.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { Problem } from './problem.ts'

/** A step of a pipeline, as far as its order is concerned; its options may have problems. */
export interface OrderedStep {
  readonly name: string
  /** What the step has after `use`: a file, a package or a built-in plugin; absent where its key is the plugin. */
  readonly use?: string
  /** Undefined when the plugin is unknown: then it may read and write anything. */
  readonly plugin: AnyPlugin | undefined
  /** Placed at the step. */
  problemAtStep(message: string, hint?: string): Problem
}

/** The problems of the order of a pipeline that has steps; `plugins` are those that an operator may add. */
export const checkOrder = (steps: readonly OrderedStep[], plugins: readonly LoadablePlugin[]): readonly Problem[] =>
  [
    duplicateStepNames,
    unwrittenContext,
    terminalPluginLast,
    onceBelowRepeats,
    sharesWithoutVary,
    varyWithoutContext,
    sharesWithoutRequest,
    sharesTwice,
  ].flatMap(rule => rule(steps, plugins))

type OrderRule = (steps: readonly OrderedStep[], plugins: readonly LoadablePlugin[]) => readonly Problem[]

const duplicateStepNames: OrderRule = steps =>
  steps
    .filter((step, index) => step.plugin && steps.findIndex(other => other.name === step.name) < index)
    .map(({ name, use = name, problemAtStep }) =>
      problemAtStep(`duplicate step ${name}: one of the two requires its own name`, `write { use: ${use}, name: …, with: { options } }`),
    )

/** One missing or misplaced plugin is one problem, however many steps read what it writes. */
const unwrittenContext: OrderRule = (steps, plugins) => {
  const gaps = steps.flatMap((step, index) => {
    const above = steps.slice(0, index)
    if (above.some(({ plugin }) => plugin === undefined)) return []
    const unwritten = readKeys(step.plugin).filter(key => !above.some(({ plugin }) => writesKey(plugin, key)))
    return unwritten.map(key => ({ step, key, fix: findWriter(key, steps.slice(index + 1), plugins) }))
  })
  const gapsByFix = new Map<string, ContextGap[]>()
  for (const gap of gaps) getOrCreate(gapsByFix, gap.fix?.name ?? `${gap.step.name} ${gap.key}`, () => []).push(gap)
  return [...gapsByFix.values()].flatMap(([first, ...others]) => (first ? [contextGapProblem([first, ...others], steps, plugins)] : []))
}

/** A step that reads what no step above it writes, and the plugin that would write it. */
interface ContextGap {
  readonly step: OrderedStep
  readonly key: ContextKey
  readonly fix: Writer | undefined
}

interface Writer {
  readonly name: string
  /** It is in the pipeline, but too far down. */
  readonly isBelow: boolean
}

/** Of the plugins that write a key, one that does not need it itself: params, for instance, only rewrites `request`. */
const findWriter = (key: ContextKey, below: readonly OrderedStep[], plugins: readonly LoadablePlugin[]): Writer | undefined => {
  const isOrigin = (plugin: LoadablePlugin | undefined): boolean => writesKey(plugin, key) && !contextKeys(plugin?.reads).includes(key)
  const step = below.find(({ plugin }) => isOrigin(plugin))
  if (step !== undefined) return { name: step.name, isBelow: true }
  const plugin = plugins.find(isOrigin)
  return plugin && { name: plugin.name, isBelow: false }
}

const contextGapProblem = (
  gaps: readonly [ContextGap, ...ContextGap[]],
  steps: readonly OrderedStep[],
  plugins: readonly LoadablePlugin[],
): Problem => {
  const [{ step, key, fix }] = gaps
  const readers = [...new Set(gaps.map(gap => gap.step.name))]
  const keys = [...new Set(gaps.map(gap => gap.key))]
  const verb = readers.length === 1 ? 'reads' : 'read'
  const message = `${joinWords(readers)} ${verb} ${joinWords(keys.map(name => `\`${name}\``))}, which no earlier plugin writes`
  if (fix === undefined) return step.problemAtStep(message, didYouMean(key, knownContextKeys(steps, plugins)))
  return step.problemAtStep(message, writerHint(fix, step.name, keys.length))
}

const writerHint = ({ name, isBelow }: Writer, reader: string, keyCount = 1): string =>
  `${isBelow ? 'move' : 'add'} ${name}, which writes ${keyCount === 1 ? 'it' : 'them'}, above ${reader}`

const knownContextKeys = (steps: readonly OrderedStep[], plugins: readonly LoadablePlugin[]): readonly string[] =>
  [...steps.map(({ plugin }) => plugin), ...plugins].flatMap(plugin => contextKeys(plugin?.writes))

const joinWords = (words: readonly string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`

const terminalPluginLast: OrderRule = (steps, plugins) => {
  const end = steps.find(step => step.plugin?.terminal)
  const last = steps.at(-1)
  if (end !== undefined) {
    const next = steps[steps.indexOf(end) + 1]
    return next ? [next.problemAtStep(`${next.name} is never reached: ${end.name} answers every call`)] : []
  }
  if (last?.plugin === undefined) return []
  const names = plugins
    .filter(plugin => plugin.terminal)
    .map(({ name }) => name)
    .join(' or ')
  const hint = names && `end with ${names}`
  return [last.problemAtStep(`the last plugin must be terminal, but ${last.name} passes calls on`, hint)]
}

const onceBelowRepeats: OrderRule = steps =>
  steps.flatMap(({ name, plugin, problemAtStep }, index) => {
    const repeater = plugin?.once && steps.slice(0, index).find(step => step.plugin?.repeats)
    if (!repeater) return []
    return [
      problemAtStep(
        `${name} must run exactly once for a call, but ${repeater.name} above it may repeat calls`,
        `move ${name} above ${repeater.name}`,
      ),
    ]
  })

const sharesWithoutVary: OrderRule = steps =>
  steps.flatMap(({ name, plugin, problemAtStep }, index) => {
    if (plugin?.vary && !plugin.variesBy) return []
    const above = steps.slice(0, index)
    const callerSpecificKey = contextKeys(plugin?.reads).find(key => sharingStepOf(key, above))
    const sharer = callerSpecificKey && sharingStepOf(callerSpecificKey, above)
    if (!sharer) return []
    const lack = plugin?.variesBy ? ', and not in vary() alone' : ' and has no vary()'
    const message = `${name} reads \`${callerSpecificKey}\`${lack}: ${sharer.name} above it would share answers between callers`
    return [problemAtStep(message, `move ${name} above ${sharer.name}`)]
  })

/**
 * The step below the writer of the key that shares answers between callers. Whatever is written above that step may depend
 * on the caller, except `request`: answers are shared only by callers with the same request.
 */
const sharingStepOf = (key: ContextKey, steps: readonly OrderedStep[]): OrderedStep | undefined => {
  const writer = steps.findLastIndex(step => writesKey(step.plugin, key))
  return key === 'request' || writer < 0 ? undefined : steps.slice(writer + 1).find(step => step.plugin?.shares)
}

/** vary() runs for the plugin that shares, so it sees only what is written above that plugin. */
const varyWithoutContext: OrderRule = steps =>
  steps.flatMap(({ name, plugin, problemAtStep }, index) => {
    const sharerIndex = steps.slice(0, index).findIndex(step => step.plugin?.shares)
    const sharer = steps[sharerIndex]
    if (!plugin?.vary || !sharer) return []
    return contextKeys(plugin.variesBy ?? plugin.reads).flatMap(key => {
      const writer = steps.slice(sharerIndex, index).find(step => writesKey(step.plugin, key))
      if (!writer || steps.slice(0, sharerIndex).some(step => writesKey(step.plugin, key))) return []
      const message = `${name} reads \`${key}\` in vary(), which ${sharer.name} calls before ${writer.name} writes it`
      return [problemAtStep(message, writer === sharer ? undefined : `move ${writer.name} above ${sharer.name}`)]
    })
  })

/** Answers are shared by callers with the same request, which must be known by then. */
const sharesWithoutRequest: OrderRule = (steps, plugins) =>
  steps.flatMap(({ name, plugin, problemAtStep }, index) => {
    const above = steps.slice(0, index)
    const isKnown = above.some(step => step.plugin === undefined || writesKey(step.plugin, 'request'))
    if (!plugin?.shares || isKnown || contextKeys(plugin.reads).includes('request')) return []
    const message = `${name} shares answers of the same \`request\`, which no earlier plugin writes`
    const writer = findWriter('request', steps.slice(index + 1), plugins)
    return [problemAtStep(message, writer && writerHint(writer, name))]
  })

/** Below a plugin that shares no caller is known, so that a second one could not tell callers apart. */
const sharesTwice: OrderRule = steps => {
  const [first, ...others] = steps.filter(step => step.plugin?.shares)
  return others.map(({ name, problemAtStep }) =>
    problemAtStep(`${name} shares answers between callers, as ${first?.name} above it does: only one plugin of a pipeline may`),
  )
}

/** The type of plugins has lost which keys it reads and writes. */
const contextKeys = (list: readonly ContextKey[] = []): readonly ContextKey[] => list

/** What the handler or vary() reads. */
const readKeys = (plugin: LoadablePlugin | undefined): readonly ContextKey[] => [
  ...new Set([...contextKeys(plugin?.reads), ...contextKeys(plugin?.variesBy)]),
]

const writesKey = (plugin: LoadablePlugin | undefined, key: ContextKey): boolean => contextKeys(plugin?.writes).includes(key)
