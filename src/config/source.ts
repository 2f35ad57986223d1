import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Path } from '../plugin.ts'
import { shownPath } from './files.ts'
import { hideValues, maskUrls } from './mask.ts'
import { pointer, valueAt } from './path.ts'
import { keyOffset, placeOf, valueOffset } from './place.ts'
import type { Problem } from './problem.ts'
import { fill } from './variables.ts'
import type { Env, Filled } from './variables.ts'
import { parseYaml, toValue } from './yaml.ts'

/** A text that held variables, and where it stands. */
export interface FilledText extends Filled {
  readonly path: Path
  /** It was one variable, unquoted and nothing else: a number or true/false, where one is wanted. */
  readonly bare: boolean
}

/** One YAML file: its value with variables replaced, and the place of everything in it. */
export interface Source {
  /** As operators see it. */
  readonly file: string
  /** Absolute. */
  readonly path: string
  /** Undefined when the file cannot be read well enough to go on; then `problems` says why. */
  readonly value: unknown
  /** What is wrong with the file as YAML, and with the form of its variables. */
  readonly problems: readonly Problem[]
  /** The texts in which variables were replaced, by the pointers of their paths. */
  readonly texts: ReadonlyMap<string, FilledText>
  at(path: Path): unknown
  /** The text there; undefined when it is none, or when its variables already are a problem. */
  textAt(path: Path): string | undefined
  /** Placed at the value, or at the nearest thing around it that exists. */
  problem(path: Path, message: string, hint?: string): Problem
  /** Placed at the key that holds the value. */
  problemAtKey(path: Path, message: string, hint?: string): Problem
  /** The message without what came from the environment, for messages that the loader did not write itself. */
  hide(message: string): string
}

/** Reads one file. Without `env`, `$` is a character like any other. */
export const readSource = (path: string, env?: Env): Source => {
  try {
    return parseSource(readFileSync(path, 'utf8'), path, env)
  } catch (error) {
    if (!isSystemError(error)) throw error
    const message = error.code === 'ENOENT' ? 'there is no such file' : `the file cannot be read: ${error.code}`
    return { ...parseSource('', path), problems: [{ file: shownPath(path), line: 1, column: 1, message }] }
  }
}

/** The same for a text that stands, or would stand, at `path`. */
export const parseSource = (raw: string, path: string, env?: Env): Source => {
  const text = raw.startsWith('\ufeff') ? raw.slice(1) : raw
  const file = shownPath(path)
  const yaml = parseYaml(text)
  const texts = new Map<string, FilledText>()
  const { value, faults } = toValue(yaml, (text, isPlain, at) => {
    const filled = env && fill(text, env)
    if (!filled) return text
    texts.set(pointer(at), { ...filled, path: at, bare: isPlain && /^\$\{[^{}]*\}$/.test(text) })
    return filled.text
  })

  const place = (offset: number, message: string, hint?: string): Problem => ({
    file,
    ...placeOf(text, offset),
    message: maskUrls(message),
    ...(hint !== undefined && { hint }),
  })
  const problem: Source['problem'] = (at, message, hint) => place(valueOffset(yaml, at), message, hint)

  const empty = value === null
  const wrong = [...yaml.faults, ...faults].map(fault => place(fault.offset, fault.message, fault.hint))
  return {
    file,
    texts,
    problem,
    path: resolve(path),
    value: empty || faults.length > 0 ? undefined : value,
    problems: [...(empty ? [place(0, 'the file is empty')] : []), ...wrong, ...malformed(texts, problem)],
    at: at => valueAt(value, at),
    textAt(at) {
      const found = valueAt(value, at)
      return typeof found === 'string' && !isIncomplete(texts.get(pointer(at))) ? found : undefined
    },
    problemAtKey: (at, message, hint) => place(keyOffset(yaml, at), message, hint),
    hide: message => hideValues(message, texts.values()),
  }
}

/** Are variables missing or malformed in it? */
export const isIncomplete = (text: Filled | undefined): boolean =>
  text !== undefined && (text.unset.length > 0 || text.malformed.length > 0)

const isSystemError = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error

const malformed = (texts: ReadonlyMap<string, FilledText>, problem: Source['problem']): readonly Problem[] =>
  [...texts.values()].flatMap(text =>
    text.malformed.map(found =>
      problem(
        text.path,
        `${found} is not a variable: it must be \${NAME}, \${NAME:-default} or \${NAME:?message}`,
        'write $$ for a dollar sign',
      ),
    ),
  )
