import type { Note } from '../call.ts'
import type { AnyPlugin } from '../plugin.ts'
import type { Problem } from './problem.ts'

/** A step of a pipeline, as far as order is concerned; also one whose options are wrong. */
export interface Placed {
  readonly name: string
  /** Undefined when nobody can tell what the step is: then it may be anything. */
  readonly plugin: AnyPlugin | undefined
  /** Placed at the step. */
  problem(message: string, hint?: string): Problem
}

/** What is wrong with the order of a pipeline that has steps; `plugins` are those that an operator may add. */
export const checkOrder = (steps: readonly Placed[], plugins: readonly AnyPlugin[]): readonly Problem[] =>
  [sameNames, unwrittenNotes, ending, repeatedOnce, shared].flatMap(rule => rule(steps, plugins))

type Rule = (steps: readonly Placed[], plugins: readonly AnyPlugin[]) => readonly Problem[]

const sameNames: Rule = steps =>
  steps
    .filter((step, index) => step.plugin && steps.findIndex(other => other.name === step.name) < index)
    .map(({ name, problem }) =>
      problem(`${name} stands twice: one of them needs a name of its own`, `write { use: ${name}, name: …, with: { options } }`),
    )

const unwrittenNotes: Rule = (steps, plugins) =>
  steps.flatMap(({ name, plugin, problem }, index) => {
    const above = steps.slice(0, index)
    if (above.some(step => step.plugin === undefined)) return []
    const unwritten = notes(plugin?.reads).filter(note => !above.some(step => writes(step.plugin, note)))
    return unwritten.map(note => problem(`${name} reads \`${note}\`, which no earlier plugin writes`, writerHint(note, steps, plugins)))
  })

const writerHint = (note: Note, steps: readonly Placed[], plugins: readonly AnyPlugin[]): string | undefined => {
  const below = steps.find(step => writes(step.plugin, note))
  if (below !== undefined) return `${below.name} writes it: move that up`
  const writer = plugins.find(plugin => writes(plugin, note))
  return writer && `${writer.name} writes it: put that above`
}

const ending: Rule = (steps, plugins) => {
  const end = steps.find(step => step.plugin?.terminal)
  const last = steps.at(-1)
  if (end !== undefined) {
    const next = steps[steps.indexOf(end) + 1]
    return next ? [next.problem(`${next.name} is never reached: ${end.name} answers every call`)] : []
  }
  if (last?.plugin === undefined) return []
  const names = plugins
    .filter(plugin => plugin.terminal)
    .map(({ name }) => name)
    .join(' or ')
  const hint = names && `end with ${names}`
  return [last.problem(`the last plugin must answer every call, but ${last.name} passes calls on`, hint)]
}

const repeatedOnce: Rule = steps =>
  steps.flatMap(({ name, plugin, problem }, index) => {
    const repeater = plugin?.once && steps.slice(0, index).find(step => step.plugin?.repeats)
    if (!repeater) return []
    return [
      problem(
        `${name} must run exactly once for a call, but ${repeater.name} above it may repeat calls`,
        `move ${name} above ${repeater.name}`,
      ),
    ]
  })

const shared: Rule = steps =>
  steps.flatMap(({ name, plugin, problem }, index) => {
    if (plugin?.vary) return []
    const above = steps.slice(0, index)
    const personal = notes(plugin?.reads).find(note => sharerOf(note, above))
    const sharer = personal && sharerOf(personal, above)
    if (!sharer) return []
    const message = `${name} reads \`${personal}\` and has no vary(), so ${sharer.name} above it would mix up callers`
    return [problem(message, `move ${name} above ${sharer.name}`)]
  })

/**
 * The step that shares answers below the one that wrote the note. Whatever is written above it may be about the caller,
 * also by way of another note; but answers are shared only by callers with the same `request`.
 */
const sharerOf = (note: Note, steps: readonly Placed[]): Placed | undefined => {
  const writer = steps.findLastIndex(step => writes(step.plugin, note))
  return note === 'request' || writer < 0 ? undefined : steps.slice(writer + 1).find(step => step.plugin?.shares)
}

/** An AnyPlugin has forgotten which notes they are. */
const notes = (list: readonly Note[] = []): readonly Note[] => list

const writes = (plugin: AnyPlugin | undefined, note: Note): boolean => notes(plugin?.writes).includes(note)
