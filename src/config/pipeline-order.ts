import type { ContextKey } from '../plugin/call.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import type { Problem } from './problem.ts'

/** A step of a pipeline, as far as order is concerned; also one whose options are wrong. */
export interface OrderedStep {
  readonly name: string
  /** Undefined when nobody can tell what the step is: then it may be anything. */
  readonly plugin: AnyPlugin | undefined
  /** Placed at the step. */
  problemAtStep(message: string, hint?: string): Problem
}

/** What is wrong with the order of a pipeline that has steps; `plugins` are those that an operator may add. */
export const checkOrder = (steps: readonly OrderedStep[], plugins: readonly AnyPlugin[]): readonly Problem[] =>
  [duplicateStepNames, unwrittenContext, terminalPluginLast, onceBelowRepeats, sharesWithoutVary].flatMap(rule => rule(steps, plugins))

type OrderRule = (steps: readonly OrderedStep[], plugins: readonly AnyPlugin[]) => readonly Problem[]

const duplicateStepNames: OrderRule = steps =>
  steps
    .filter((step, index) => step.plugin && steps.findIndex(other => other.name === step.name) < index)
    .map(({ name, problemAtStep }) =>
      problemAtStep(`${name} stands twice: one of them needs a name of its own`, `write { use: ${name}, name: …, with: { options } }`),
    )

const unwrittenContext: OrderRule = (steps, plugins) =>
  steps.flatMap(({ name, plugin, problemAtStep }, index) => {
    const above = steps.slice(0, index)
    if (above.some(step => step.plugin === undefined)) return []
    const unwritten = contextKeys(plugin?.reads).filter(key => !above.some(step => writesKey(step.plugin, key)))
    return unwritten.map(note =>
      problemAtStep(`${name} reads \`${note}\`, which no earlier plugin writes`, writerHint(note, steps, plugins)),
    )
  })

const writerHint = (key: ContextKey, steps: readonly OrderedStep[], plugins: readonly AnyPlugin[]): string | undefined => {
  const below = steps.find(step => writesKey(step.plugin, key))
  if (below !== undefined) return `${below.name} writes it: move that up`
  const writer = plugins.find(plugin => writesKey(plugin, key))
  return writer && `${writer.name} writes it: put that above`
}

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
  return [last.problemAtStep(`the last plugin must answer every call, but ${last.name} passes calls on`, hint)]
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
    if (plugin?.vary) return []
    const above = steps.slice(0, index)
    const callerSpecificKey = contextKeys(plugin?.reads).find(note => sharingStepOf(note, above))
    const sharer = callerSpecificKey && sharingStepOf(callerSpecificKey, above)
    if (!sharer) return []
    const message = `${name} reads \`${callerSpecificKey}\` and has no vary(), so ${sharer.name} above it would mix up callers`
    return [problemAtStep(message, `move ${name} above ${sharer.name}`)]
  })

/**
 * The step that shares answers below the one that wrote the note. Whatever is written above it may be about the caller,
 * also by way of another note; but answers are shared only by callers with the same `request`.
 */
const sharingStepOf = (key: ContextKey, steps: readonly OrderedStep[]): OrderedStep | undefined => {
  const writer = steps.findLastIndex(step => writesKey(step.plugin, key))
  return key === 'request' || writer < 0 ? undefined : steps.slice(writer + 1).find(step => step.plugin?.shares)
}

/** An AnyPlugin has forgotten which notes they are. */
const contextKeys = (list: readonly ContextKey[] = []): readonly ContextKey[] => list

const writesKey = (plugin: AnyPlugin | undefined, key: ContextKey): boolean => contextKeys(plugin?.writes).includes(key)
