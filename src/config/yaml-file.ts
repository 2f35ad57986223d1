import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Path } from '../plugin/plugin.ts'
import { displayPath } from './config-files.ts'
import { maskValues, maskUrls } from './mask-secrets.ts'
import { jsonPointer, valueAt } from './path.ts'
import { offsetOfKey, lineAndColumn, offsetOfValue } from './locate.ts'
import type { Problem } from './problem.ts'
import { expandVariables } from './variables.ts'
import type { Env, Expansion } from './variables.ts'
import { parseYamlDocument, toPlainValue } from './yaml-document.ts'

/** A text that held variables, and where it stands. */
export interface ExpandedText extends Expansion {
  readonly path: Path
  /** It was one variable, unquoted and nothing else: a number or true/false, where one is wanted. */
  readonly isBareVariable: boolean
}

/** One YAML file: its value with variables replaced, and the place of everything in it. */
export interface YamlFile {
  /** As operators see it. */
  readonly file: string
  /** Absolute. */
  readonly path: string
  /** Undefined when the file cannot be read well enough to go on; then `problems` says why. */
  readonly value: unknown
  /** What is wrong with the file as YAML, and with the form of its variables. */
  readonly problems: readonly Problem[]
  /** The texts in which variables were replaced, by the pointers of their paths. */
  readonly expandedTexts: ReadonlyMap<string, ExpandedText>
  valueAt(path: Path): unknown
  /** The text there; undefined when it is none, or when its variables already are a problem. */
  textAt(path: Path): string | undefined
  /** Placed at the value, or at the nearest thing around it that exists. */
  problemAt(path: Path, message: string, hint?: string): Problem
  /** Placed at the key that holds the value. */
  problemAtKey(path: Path, message: string, hint?: string): Problem
  /** The message without what came from the environment, for messages that the loader did not write itself. */
  maskValues(message: string): string
}

/** Reads one file. Without `env`, `$` is a character like any other. */
export const readYamlFile = (path: string, env?: Env): YamlFile => {
  try {
    return parseYamlFile(readFileSync(path, 'utf8'), path, env)
  } catch (error) {
    if (!isSystemError(error)) throw error
    const message = error.code === 'ENOENT' ? 'there is no such file' : `the file cannot be read: ${error.code}`
    return { ...parseYamlFile('', path), problems: [{ file: displayPath(path), line: 1, column: 1, message }] }
  }
}

/** The same for a text that stands, or would stand, at `path`. */
export const parseYamlFile = (raw: string, path: string, env?: Env): YamlFile => {
  const text = raw.startsWith('\ufeff') ? raw.slice(1) : raw
  const file = displayPath(path)
  const yaml = parseYamlDocument(text)
  const expandedTexts = new Map<string, ExpandedText>()
  const { value, problems: aliasProblems } = toPlainValue(yaml, (text, isPlain, valuePath) => {
    const expanded = env && expandVariables(text, env)
    if (!expanded) return text
    expandedTexts.set(jsonPointer(valuePath), { ...expanded, path: valuePath, isBareVariable: isPlain && /^\$\{[^{}]*\}$/.test(text) })
    return expanded.text
  })

  const problemAtOffset = (offset: number, message: string, hint?: string): Problem => ({
    file,
    ...lineAndColumn(text, offset),
    message: maskUrls(message),
    ...(hint !== undefined && { hint }),
  })
  const problemAt: YamlFile['problemAt'] = (at, message, hint) => problemAtOffset(offsetOfValue(yaml, at), message, hint)

  const empty = value === null
  const yamlProblems = [...yaml.problems, ...aliasProblems].map(fault => problemAtOffset(fault.offset, fault.message, fault.hint))
  return {
    file,
    expandedTexts,
    problemAt,
    path: resolve(path),
    value: empty || aliasProblems.length > 0 ? undefined : value,
    problems: [
      ...(empty ? [problemAtOffset(0, 'the file is empty')] : []),
      ...yamlProblems,
      ...malformedVariableProblems(expandedTexts, problemAt),
    ],
    valueAt: at => valueAt(value, at),
    textAt(at) {
      const found = valueAt(value, at)
      return typeof found === 'string' && !hasUnresolvedVariables(expandedTexts.get(jsonPointer(at))) ? found : undefined
    },
    problemAtKey: (at, message, hint) => problemAtOffset(offsetOfKey(yaml, at), message, hint),
    maskValues: message => maskValues(message, expandedTexts.values()),
  }
}

/** Are variables missing or malformed in it? */
export const hasUnresolvedVariables = (text: Expansion | undefined): boolean =>
  text !== undefined && (text.unset.length > 0 || text.malformed.length > 0)

const isSystemError = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error

const malformedVariableProblems = (texts: ReadonlyMap<string, ExpandedText>, problem: YamlFile['problemAt']): readonly Problem[] =>
  [...texts.values()].flatMap(text =>
    text.malformed.map(found =>
      problem(
        text.path,
        `${found} is not a variable: it must be \${NAME}, \${NAME:-default} or \${NAME:?message}`,
        'write $$ for a dollar sign',
      ),
    ),
  )
