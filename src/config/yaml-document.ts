import { isAlias, isMap, isScalar, isSeq, parseDocument } from 'yaml'
import type { Alias, Document, Pair, ParsedNode, Scalar, YAMLError, YAMLMap } from 'yaml'
import type { Path } from '../plugin/plugin.ts'

/** Something wrong with the YAML itself, at an offset of the text. */
export interface YamlProblem {
  readonly offset: number
  readonly message: string
  readonly hint?: string
}

/** A parsed text that still knows where everything stands. */
export interface YamlDocument {
  readonly root: ParsedNode | null
  readonly problems: readonly YamlProblem[]
  /** Something is wrong beyond a key that stands twice, so the value may not be what was meant. */
  readonly isUnreliable: boolean
  /** The node itself, or what it stands for when it is an alias; undefined when there is no such anchor. */
  resolveAlias(node: ParsedNode | null): ParsedNode | null | undefined
}

/** Parses one document of YAML 1.2. Keys are always texts. Never throws. */
export const parseYamlDocument = (text: string): YamlDocument => {
  const document = parseDocument(text, {
    prettyErrors: false,
    stringKeys: true,
    resolveKnownTags: false,
    logLevel: 'error',
  })
  const errors = [...document.errors, ...document.warnings]
  const isOld = document.directives?.yaml.version === '1.1'
  return {
    root: document.contents,
    problems: [...firstPerLine(errors.map(error => toLineProblem(error, text))), ...(isOld ? [unsupportedVersion] : [])],
    isUnreliable: isOld || errors.some(error => error.code !== 'DUPLICATE_KEY'),
    resolveAlias: aliasResolver(document),
  }
}

/** What this gives for a text takes its place in the value. */
export type TransformText = (text: string, isPlain: boolean, path: Path) => string

/** The plain value of a parsed text, and the faults that show only now: aliases that lead nowhere or never end. */
export const toPlainValue = (yaml: YamlDocument, transformText: TransformText): { value: unknown; problems: readonly YamlProblem[] } => {
  if (yaml.isUnreliable) return { value: undefined, problems: [] }
  const faults: YamlProblem[] = []
  let nodesLeft = maxNodes

  const read = (node: ParsedNode | null, path: Path, ancestors: readonly ParsedNode[]): unknown => {
    nodesLeft -= 1
    if (nodesLeft < 0) return undefined
    if (ancestors.length > maxNestingDepth) return report(node, tooDeep)
    if (isAlias(node)) return readAlias(node, path, ancestors)
    if (isMap(node)) {
      const inside = [...ancestors, node]
      return Object.fromEntries(
        node.items.map(pair => {
          const key = keyOf(pair)
          return [key, read(pair.value, [...path, key], inside)]
        }),
      )
    }
    if (isSeq(node)) {
      const inside = [...ancestors, node]
      return node.items.map((item, index) => read(item, [...path, index], inside))
    }
    return isScalar(node) ? readScalar(node, path) : null
  }

  const report = (node: ParsedNode | null, message: string): undefined => {
    faults.push({ offset: node?.range[0] ?? 0, message })
  }

  const readScalar = (node: Scalar, path: Path): unknown =>
    typeof node.value === 'string' ? transformText(node.value, node.type === 'PLAIN', path) : node.value

  const readAlias = (alias: Alias.Parsed, path: Path, within: readonly ParsedNode[]): unknown => {
    const node = yaml.resolveAlias(alias)
    if (node && !within.includes(node)) return read(node, path, within)
    return report(
      alias,
      node
        ? `the alias *${alias.source} stands inside what it names`
        : `the alias *${alias.source} has no anchor &${alias.source} above it`,
    )
  }

  const value = read(yaml.root, [], [])
  return { value, problems: nodesLeft < 0 ? [tooManyNodes] : faults }
}

/** The pair with this key; of several the last, as in the value. */
export const pairAt = (map: YAMLMap.Parsed, key: string | number): Pair<ParsedNode, ParsedNode | null> | undefined =>
  map.items.findLast(pair => keyOf(pair) === String(key))

const keyOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key)

// Far more than any configuration has; aliases of aliases reach it from a few lines.
const maxNodes = 100_000
const maxNestingDepth = 100
const tooManyNodes = { offset: 0, message: `the file holds more than ${maxNodes} values, with those its aliases repeat` }
const tooDeep = 'maps and lists are nested too deeply'
const unsupportedVersion = { offset: 0, message: 'the file must be YAML 1.2, not 1.1', hint: 'leave out the line `%YAML 1.1`' }

const aliasResolver = (document: Document): YamlDocument['resolveAlias'] => {
  const resolved = new Map<Alias, ParsedNode | undefined>()
  return node => {
    if (!isAlias(node)) return node
    // What a parsed alias stands for was parsed, too.
    if (!resolved.has(node)) resolved.set(node, node.resolve(document) as ParsedNode | undefined)
    return resolved.get(node)
  }
}

/** One mistake often gives a train of errors: each line tells its first. */
const firstPerLine = (faults: readonly LineProblem[]): readonly YamlProblem[] => {
  const reportedLines = new Set<number>()
  return faults
    .filter(({ lineStart }) => !reportedLines.has(lineStart) && reportedLines.add(lineStart))
    .map(({ lineStart, ...fault }) => fault)
}

interface LineProblem extends YamlProblem {
  /** Where its line begins. */
  readonly lineStart: number
}

const toLineProblem = (error: YAMLError, text: string): LineProblem => {
  const offset = error.pos[0]
  const line = text.slice(0, offset).lastIndexOf('\n') + 1
  const isBare = /(^|[^"'\w])\$\{/.test(text.slice(line, offset + 1))
  return {
    offset,
    lineStart: line,
    message: describeYamlError(error),
    ...(isBare && { hint: 'put a text that holds a variable in quotes: "${VAR}"' }),
  }
}

/** In words for who does not know the grammar; what hardly anybody meets stays as the parser says it. */
const describeYamlError = ({ code, message }: YAMLError): string => {
  const [, bracket, quote] = /^Flow .* end with a (.)$|^Missing closing (.)quote$/.exec(message) ?? []
  if (bracket !== undefined) return `a closing ${bracket} is missing, or a line before it is not indented`
  if (quote !== undefined) return `a closing ${quote} is missing`
  return yamlErrorMessages[code] ?? `${message.charAt(0).toLowerCase()}${message.slice(1)}`
}

const yamlErrorMessages: Partial<Record<YAMLError['code'], string>> = {
  BAD_INDENT: 'this line does not begin where the others of its map or list do',
  BLOCK_IN_FLOW: 'a comma must stand between two entries in brackets or braces',
  MULTILINE_IMPLICIT_KEY: 'a key must be followed by a colon, on the same line',
  DUPLICATE_KEY: 'the same key stands twice in one map',
  TAB_AS_INDENT: 'a tab stands where only spaces may indent',
  UNEXPECTED_TOKEN: 'this does not follow from what stands before it: indentation, quotes or a comma may be missing',
  BLOCK_AS_IMPLICIT_KEY: 'a map or list cannot begin here: indent it, or put a text with a colon in quotes',
  RESOURCE_EXHAUSTION: tooDeep,
  MULTIPLE_DOCS: 'a second document begins here; the file must hold one',
  NON_STRING_KEY: 'a key must be a text',
  TAG_RESOLVE_FAILED: 'tags such as !this are not used here',
}
