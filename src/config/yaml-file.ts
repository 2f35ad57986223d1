import { isUtf8 } from 'node:buffer'
import { resolve } from 'node:path'
import { isCollection, isMap, isScalar, isSeq } from 'yaml'
import type { ParsedNode } from 'yaml'
import type { Path } from '../util/json.ts'
import { describeReadError } from '../util/files.ts'
import { jsonPointer, valueAt } from '../util/json-path.ts'
import { recomputable } from '../util/memoize.ts'
import { displayPath, filesOnDisk } from './config-files.ts'
import type { Problem } from './problem.ts'
import { maskRanges, maskSourceLine, maskUrls, maskValues } from './masking.ts'
import type { SecretRange } from './masking.ts'
import { expandVariables } from './variables.ts'
import type { Env, Expansion } from './variables.ts'
import { pairAt, parseYamlDocument, toPlainValue } from './yaml-document.ts'
import type { YamlDocument } from './yaml-document.ts'

/** A string that held variables, and its place. */
export interface ExpandedText extends Expansion {
  readonly path: Path
  /** It was one variable, unquoted and nothing else: a number or true/false, where one is wanted. */
  readonly isBareVariable: boolean
}

/** One YAML file: its value with variables expanded, and the position of everything in it, for which the text is parsed again where that is asked for late. */
export interface YamlFile {
  /** As operators see it. */
  readonly file: string
  /** Absolute. */
  readonly path: string
  readonly text: string
  /** Undefined when the file cannot be read well enough to go on; then `problems` says why. */
  readonly value: unknown
  /** The file has no value at all: it is empty, or holds only comments. */
  readonly isEmpty: boolean
  /** Problems of the file as YAML, and of the syntax of its variables. */
  readonly problems: readonly Problem[]
  /** The strings in which variables were expanded, by the JSON pointers of their paths. */
  readonly expandedTexts: ReadonlyMap<string, ExpandedText>
  valueAt(path: Path): unknown
  /** The string there; undefined when it is none, or when its variables already are a problem. */
  textAt(path: Path): string | undefined
  /** The value there, to follow "not" in a message; of a string with variables only their names. */
  describeValueAt(path: Path): string
  /** Placed at the value, or at the nearest node around it that exists. */
  problemAt(path: Path, message: string, hint?: string): Problem
  /** Placed at the key that holds the value. */
  problemAtKey(path: Path, message: string, hint?: string): Problem
  /** The lines of problems show no values at these paths, from now on. */
  hideValues(paths: readonly Path[]): void
  /** The message without values of the environment, for messages that the loader did not write itself. */
  maskValues(message: string): string
}

/** Reads one file. Without `env`, `$` is a character like any other. */
export const readYamlFile = (path: string, env?: Env, files = filesOnDisk): YamlFile => {
  try {
    const bytes = files.read(path)
    return isUtf8(bytes) ? parseYamlFile(bytes.toString(), path, env) : unreadableFile(path, encodingProblem(bytes))
  } catch (error) {
    if (!isSystemError(error)) throw error
    return unreadableFile(path, { line: 1, column: 1, message: describeReadError(error) })
  }
}

const unreadableFile = (path: string, problem: Omit<Problem, 'file'>): YamlFile => ({
  ...parseYamlFile('', path),
  isEmpty: false,
  problems: [{ file: displayPath(path), ...problem }],
})

/** At the first character that is not UTF-8. */
const encodingProblem = (bytes: Buffer): Omit<Problem, 'file'> => {
  const linesBefore = (bytes.toString().split('\ufffd', 1)[0] ?? '').split('\n')
  const place = { line: linesBefore.length, column: (linesBefore.at(-1) ?? '').length + 1 }
  return { ...place, message: 'the file must be UTF-8', hint: 'save it with the encoding UTF-8' }
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error

/** The same for the text of a file at `path`. */
export const parseYamlFile = (raw: string, path: string, env?: Env): YamlFile => {
  const text = raw.startsWith('\ufeff') ? raw.slice(1) : raw
  const file = displayPath(path)
  const readDocument = recomputable(() => parseYamlDocument(text))
  const yaml = readDocument()
  const expandedTexts = new Map<string, ExpandedText>()
  const { value, problems: aliasProblems } = toPlainValue(yaml, (text, isPlain, valuePath) => {
    const expanded = env && expandVariables(text, env)
    if (!expanded) return text
    expandedTexts.set(jsonPointer(valuePath), { ...expanded, path: valuePath, isBareVariable: isPlain && /^\$\{[^{}]*\}$/.test(text) })
    return expanded.text
  })

  const hidden: SecretRange[] = []
  const problemAtOffset = (offset: number, message: string, hint?: string): Problem => ({
    file,
    ...positionOf(readDocument(), text, offset, hidden),
    message: maskUrls(message),
    ...(hint !== undefined && { hint }),
  })
  const problemAt: YamlFile['problemAt'] = (at, message, hint) => problemAtOffset(offsetOfValue(readDocument(), at), message, hint)

  const isEmpty = value === null
  const yamlProblems = [...yaml.problems, ...aliasProblems].map(({ offset, message, hint }) => problemAtOffset(offset, message, hint))
  return {
    file,
    isEmpty,
    expandedTexts,
    problemAt,
    path: resolve(path),
    text,
    value: isEmpty || aliasProblems.length > 0 ? undefined : value,
    problems: [
      ...(isEmpty ? [problemAtOffset(0, 'the file is empty')] : []),
      ...yamlProblems,
      ...malformedVariableProblems(expandedTexts, problemAt),
    ],
    valueAt: at => valueAt(value, at),
    textAt(at) {
      const found = valueAt(value, at)
      return typeof found === 'string' && !hasUnresolvedVariables(expandedTexts.get(jsonPointer(at))) ? found : undefined
    },
    describeValueAt: at => describeValue(valueAt(value, at), expandedTexts.get(jsonPointer(at))),
    problemAtKey: (at, message, hint) => problemAtOffset(offsetOfKey(readDocument(), at), message, hint),
    hideValues: paths => hidden.push(...paths.flatMap(at => rangeOfValue(readDocument(), at))),
    maskValues: message => maskValues(message, expandedTexts.values()),
  }
}

/** Are variables of it unset or malformed? */
export const hasUnresolvedVariables = (text: Expansion | undefined): boolean =>
  text !== undefined && (text.unset.length > 0 || text.malformed.length > 0)

const malformedVariableProblems = (texts: ReadonlyMap<string, ExpandedText>, problemAt: YamlFile['problemAt']): readonly Problem[] =>
  [...texts.values()].flatMap(text =>
    text.malformed.map(found =>
      problemAt(
        text.path,
        `malformed variable ${shortenVariable(found)}: it must be \${NAME}, \${NAME:-default} or \${NAME:?message}`,
        'write $$ for a dollar sign',
      ),
    ),
  )

/** Without the default, which may be a secret. */
const shortenVariable = (text: string): string => {
  const [start = ''] = /^\$\{\w*:?[-?+=]?/.exec(text) ?? []
  return ['', '}'].includes(text.slice(start.length)) ? text : `${start}…`
}

const maxShownChars = 60

const describeValue = (value: unknown, text: ExpandedText | undefined): string => {
  if (text && text.values.length > 0) return `the value of ${text.variables.map(name => `\${${name}}`).join(' and ')}`
  if (typeof value === 'string') return JSON.stringify(value.length > maxShownChars ? `${value.slice(0, maxShownChars)}…` : value)
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  return value === null || value === undefined ? 'an empty value' : typeof value === 'object' ? 'a map' : String(value)
}

/** The line and column of an offset, and the line's text. */
const positionOf = (
  { lines, secretRanges }: YamlDocument,
  text: string,
  anyOffset: number,
  hidden: readonly SecretRange[],
): Pick<Problem, 'line' | 'column' | 'sourceLine'> => {
  // What is missing at the end of a file is missing after its last word.
  const offset = Math.min(anyOffset, text.trimEnd().length)
  const { line, col } = lines.linePos(offset)
  const lineStart = offset - (col - 1)
  const length = text.slice(lineStart).split(/\r?\n/, 1).join('').length
  const sourceLine = maskRanges(text, lineStart, lineStart + length, [...secretRanges(), ...hidden])
  return {
    line,
    column: [...text.slice(lineStart, offset)].length + 1,
    ...(sourceLine.trim() !== '' && { sourceLine: maskSourceLine(sourceLine) }),
  }
}

/** Where the value at the path begins; if it does not exist, the key of the nearest node around it. */
const offsetOfValue = (yaml: YamlDocument, path: Path): number => {
  const { node, key, isExact } = findNode(yaml, path)
  const hasOwnStart = isCollection(node) ? node.flow === true : isScalar(node) ? node.source !== '' : node !== null
  // A block map or an empty value has nothing to point at but its key.
  return startOffset(isExact && hasOwnStart ? node : (key ?? node))
}

/** Where the key begins that holds the value at the path, or the value itself when it is an item of a list. */
const offsetOfKey = (yaml: YamlDocument, path: Path): number => {
  const { node, key } = findNode(yaml, path)
  return startOffset(key ?? node)
}

const rangeOfValue = (yaml: YamlDocument, path: Path): readonly SecretRange[] => {
  const { node, isExact } = findNode(yaml, path)
  const value = yaml.resolveAlias(node)
  return isExact && value ? [[value.range[0], value.range[1]]] : []
}

const startOffset = (node: ParsedNode | null): number => node?.range[0] ?? 0

interface LocatedNode {
  readonly node: ParsedNode | null
  /** The key that holds the node, when a map does. */
  readonly key?: ParsedNode
  /** The path ends here; otherwise this is the nearest node around it. */
  readonly isExact: boolean
}

/** Follows aliases on its way, but ends at one: its position is the place that was asked for. */
const findNode = (yaml: YamlDocument, path: Path): LocatedNode =>
  path.reduce<LocatedNode>(
    (here, part) => {
      const next = here.isExact ? childNode(yaml, yaml.resolveAlias(here.node), part) : undefined
      return next ?? { ...here, isExact: false }
    },
    { node: yaml.root, isExact: true },
  )

const childNode = (yaml: YamlDocument, node: ParsedNode | null | undefined, part: string | number): LocatedNode | undefined => {
  if (isMap(node)) {
    const pair = pairAt(yaml, node, part)
    return pair && { node: pair.value, key: pair.key, isExact: true }
  }
  const item = isSeq(node) ? node.items[Number(part)] : undefined
  return item && { node: item, isExact: true }
}
