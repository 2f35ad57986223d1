import { LineCounter, isAlias, isMap, isScalar, isSeq, parseDocument } from 'yaml'
import type { Alias, Document, ParsedNode, Scalar, YAMLMap, Pair } from 'yaml'
import type { Path } from '../util/json.ts'
import { findSecretRanges } from './masking.ts'
import type { SecretRange } from './masking.ts'
import { problemsOfYamlErrors, tooDeep } from './yaml-errors.ts'
import type { YamlProblem } from './yaml-errors.ts'

/** A parsed text that still knows the position of every node. */
export interface YamlDocument {
  readonly root: ParsedNode | null
  readonly lines: LineCounter
  readonly problems: readonly YamlProblem[]
  /** There are problems other than duplicate keys, so the value may not be what was meant. */
  readonly isUnreliable: boolean
  /** The node itself, or the node that an alias refers to; undefined when its anchor does not exist. */
  resolveAlias(node: ParsedNode | null): ParsedNode | null | undefined
  secretRanges(): readonly SecretRange[]
}

/** Parses one document of YAML 1.2. Keys are always strings. Never throws. */
export const parseYamlDocument = (text: string): YamlDocument => {
  const lines = countLines(text)
  const document = parseDocument(text, {
    prettyErrors: false,
    stringKeys: true,
    resolveKnownTags: false,
    logLevel: 'error',
  })
  const errors = [...document.errors, ...document.warnings]
  const bareReturn = text.search(/\r(?!\n)/)
  const isOld = document.directives?.yaml.version === '1.1'
  return {
    root: document.contents,
    lines,
    problems:
      bareReturn >= 0
        ? [unsupportedLineEnd(bareReturn)]
        : [...problemsOfYamlErrors(document, text, lines), ...(isOld ? [unsupportedVersion] : [])],
    isUnreliable: bareReturn >= 0 || isOld || errors.some(error => error.code !== 'DUPLICATE_KEY'),
    resolveAlias: aliasResolver(document),
    secretRanges: () => findSecretRanges(document, text),
  }
}

/** The parser's own count leaves out the end of some lines that are malformed. */
const countLines = (text: string): LineCounter => {
  const lines = new LineCounter()
  lines.addNewLine(0)
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) lines.addNewLine(end + 1)
  return lines
}

/** Returns the string that takes the place of a string in the value. */
type TransformText = (text: string, isPlain: boolean, path: Path) => string

/** The plain value of a parsed text, and the problems that show only now: aliases without an anchor, or inside their own. */
export const toPlainValue = (yaml: YamlDocument, transformText: TransformText): { value: unknown; problems: readonly YamlProblem[] } => {
  if (yaml.isUnreliable) return { value: undefined, problems: [] }
  const problems: YamlProblem[] = []
  let nodesLeft = maxNodes

  const read = (node: ParsedNode | null, path: Path, ancestors: readonly ParsedNode[]): unknown => {
    nodesLeft -= 1
    if (nodesLeft < 0) return undefined
    if (ancestors.length > maxNestingDepth) return report(node, tooDeep)
    if (isAlias(node)) return readAlias(node, path, ancestors)
    if (isMap(node)) return readMap(node, path, [...ancestors, node])
    if (isSeq(node)) {
      const inside = [...ancestors, node]
      return node.items.map((item, index) => read(item, [...path, index], inside))
    }
    return isScalar(node) ? readScalar(node, path) : null
  }

  const readMap = (map: YAMLMap.Parsed, path: Path, ancestors: readonly ParsedNode[]): unknown => {
    const entries = entriesOf(map, { ...yaml, onInvalid: reportMergeKey }).filter(pair => path.length > 0 || !isExtension(pair))
    return Object.fromEntries(entries.map(pair => [keyOf(pair), read(pair.value, [...path, keyOf(pair)], ancestors)]))
  }

  const readScalar = (node: Scalar.Parsed, path: Path): unknown => {
    const thousands = /^[1-9]\d{0,2}(?=\.000$)/.exec(node.source)?.[0]
    if (typeof node.value === 'number' && thousands !== undefined)
      return report(node, `${node.source} is the number ${thousands}`, `write ${thousands}000, or ${thousands}`)
    return typeof node.value === 'string' ? transformText(node.value, node.type === 'PLAIN', path) : node.value
  }

  const readAlias = (alias: Alias.Parsed, path: Path, ancestors: readonly ParsedNode[]): unknown => {
    const node = yaml.resolveAlias(alias)
    if (node && !ancestors.includes(node)) return read(node, path, ancestors)
    if (node) return report(alias, `the alias *${alias.source} is inside the value that it refers to`)
    return report(alias, missingAnchor, /^[\w-]+$/.test(alias.source) ? undefined : 'quote a string that begins with *')
  }

  const reportMergeKey = (node: ParsedNode | null): void => {
    const isDangling = isAlias(node) && yaml.resolveAlias(node) === undefined
    report(node, isDangling ? missingAnchor : 'the value of << must be an alias of a map, or a list of such aliases')
  }

  const report = (node: ParsedNode | null, message: string, hint?: string): undefined => {
    problems.push({ offset: node?.range[0] ?? 0, message, ...(hint !== undefined && { hint }) })
  }

  const value = read(yaml.root, [], [])
  return { value, problems: nodesLeft < 0 ? [tooManyNodes] : problems }
}

/** The pair with this key; of duplicates the last, as in the value. */
export const pairAt = (yaml: YamlDocument, map: YAMLMap.Parsed, key: string | number): ParsedPair | undefined =>
  entriesOf(map, yaml).findLast(pair => keyOf(pair) === String(key))

/** A section of the file itself that only holds anchors, as in compose files: `x-NAME`. It has no other meaning. */
const isExtension = (pair: ParsedPair): boolean => keyOf(pair).startsWith('x-')

/** Without the name: it is a part of a secret where a secret begins with an asterisk. */
const missingAnchor = 'this alias has no anchor above it'

// Far more than any configuration has; aliases of aliases reach it from a few lines.
const maxNodes = 100_000
const maxNestingDepth = 100
const tooManyNodes = { offset: 0, message: `the file contains more than ${maxNodes} values, counting those that aliases repeat` }
const unsupportedVersion = { offset: 0, message: 'the file must be YAML 1.2, not 1.1', hint: 'remove the line `%YAML 1.1`' }
const unsupportedLineEnd = (offset: number): YamlProblem => ({
  offset,
  message: 'this line ends with CR alone; lines must end with LF or CR LF',
  hint: 'save the file with the line ends of Unix or of Windows',
})

const aliasResolver = (document: Document): YamlDocument['resolveAlias'] => {
  const resolved = new Map<Alias, ParsedNode | undefined>()
  return node => {
    if (!isAlias(node)) return node
    // The node that a parsed alias refers to was parsed, too.
    if (!resolved.has(node)) resolved.set(node, node.resolve(document) as ParsedNode | undefined)
    return resolved.get(node)
  }
}

type ParsedPair = Pair<ParsedNode, ParsedNode | null>

/** What the entries of a map depend on besides the map itself. */
interface MergeContext extends Pick<YamlDocument, 'resolveAlias'> {
  /** Called for each value of `<<` that is not a map. */
  readonly onInvalid?: (node: ParsedNode | null) => void
}

/**
 * The entries of a map, with those that it takes from other maps by the key `<<` (the merge key of YAML 1.1). Its own entries
 * come first and take precedence; of several maps the first takes precedence. Each map is taken once, so that cycles end.
 */
const entriesOf = (map: YAMLMap.Parsed, context: MergeContext): readonly ParsedPair[] => {
  // Most maps have no merge key.
  if (!map.items.some(isMergePair)) return map.items
  const visited = new Set<ParsedNode>()
  const keys = new Set<string>()
  const entries: ParsedPair[] = []
  const add = (source: YAMLMap.Parsed): void => {
    if (visited.has(source)) return
    visited.add(source)
    const own = source.items.filter(pair => !isMergePair(pair))
    const added = source === map ? own : own.filter(pair => !keys.has(keyOf(pair)))
    entries.push(...added)
    for (const pair of added) keys.add(keyOf(pair))
    for (const { value } of source.items.filter(isMergePair)) mapsOf(value, context).forEach(add)
  }
  add(map)
  return entries
}

const keyOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key)

/** In quotes, `<<` is a key like any other. */
const isMergePair = ({ key }: Pair): boolean => isScalar(key) && key.value === '<<' && key.type === 'PLAIN'

/** The maps that the value of a merge key refers to: one, or a list of them. */
const mapsOf = (value: ParsedNode | null, { resolveAlias, onInvalid }: MergeContext): readonly YAMLMap.Parsed[] => {
  const resolved = resolveAlias(value)
  const nodes = isSeq(resolved) ? resolved.items : [value]
  return nodes.flatMap(node => {
    const found = resolveAlias(node)
    if (isMap(found)) return [found]
    onInvalid?.(node)
    return []
  })
}
