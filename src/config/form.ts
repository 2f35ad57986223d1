import type { Path } from '../plugin.ts'
import type { ObjectSchema } from '../schema.ts'
import { checkOptions } from './options.ts'
import { isMap, isName, pointer } from './path.ts'
import type { Problem } from './problem.ts'
import type { Source } from './source.ts'
import { describeFound } from './words.ts'

/** How a step of a pipeline is written. */
export interface Form {
  /** What says which plugin it is; empty when nothing does. */
  readonly word: string
  /** Where that word is a key, or the key of that word. */
  readonly at: Path
  readonly options: Path
  /** The word may be a file or a package. */
  readonly outside: boolean
  /** The name that the step gives itself. */
  readonly name?: string
  readonly problems: readonly Problem[]
}

/** The longer way to write a step. */
const useSchema = {
  type: 'object',
  description: 'A plugin from outside, or one that stands in the pipeline for the second time.',
  properties: {
    use: {
      type: 'string',
      minLength: 1,
      description: 'A file relative to this one (./my-plugin.js), a package, or a plugin that comes with the gateway.',
    },
    with: { description: 'The options of the plugin.' },
    name: { type: 'string', description: 'What the step is called when its plugin stands twice, in kebab-case.' },
  },
  required: ['use'],
} as const satisfies ObjectSchema

/** Reads the form of the step at this position of the pipeline. */
export const readForm = (source: Source, index: number): Form => {
  const at = ['pipeline', index]
  const step = source.at(at)
  if (!isMap(step)) return noMap(source, at, step)
  const [word, second] = Object.keys(step)
  if (word === undefined) return noMap(source, at, step)
  if (Object.hasOwn(step, 'use')) return readUse(source, at)
  const path = [...at, word]
  const problems = second === undefined ? [] : [secondKey(source, at, word, second)]
  return { word, at: path, options: path, outside: false, problems }
}

const noMap = (source: Source, at: Path, step: unknown): Form => {
  // The word is printed, so it must be the file's own.
  const word = source.texts.has(pointer(at)) ? '' : (source.textAt(at) ?? '')
  const found = isMap(step) ? 'an empty one' : describeFound(source, at)
  const hint = isName(word) ? `write \`- ${word}: {}\`` : 'for example `- upstream: { timeout: 10s }`'
  const problem = source.problem(at, `a step must be a map with one key, the plugin's name, not ${found}`, hint)
  return { word, at, options: [...at, word], outside: false, problems: [problem] }
}

const secondKey = (source: Source, at: Path, word: string, second: string): Problem =>
  source.problemAtKey(
    [...at, second],
    `a step has one key, the plugin's name; here are \`${word}\` and \`${second}\``,
    `indent \`${second}\` more if it is an option of ${word}`,
  )

const readUse = (source: Source, at: Path): Form => {
  const checked = checkOptions({ source, path: at, name: '', schema: useSchema })
  const name = source.textAt([...at, 'name'])
  const path = [...at, 'name']
  const wrong =
    name === undefined || isName(name)
      ? []
      : [source.problem(path, `the name of a step must be kebab-case, not ${describeFound(source, path)}`)]
  return {
    word: source.textAt([...at, 'use']) ?? '',
    at: [...at, 'use'],
    options: [...at, 'with'],
    outside: true,
    ...(name !== undefined && { name }),
    problems: [...checked.problems, ...wrong],
  }
}
