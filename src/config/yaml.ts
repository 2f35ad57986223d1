import { isAlias, isMap, isScalar, isSeq, parseDocument } from 'yaml'
import type { Alias, Document, Pair, ParsedNode, Scalar, YAMLError, YAMLMap } from 'yaml'
import type { Path } from '../plugin.ts'

/** Something wrong with the YAML itself, at an offset of the text. */
export interface Fault {
  readonly offset: number
  readonly message: string
  readonly hint?: string
}

/** A parsed text that still knows where everything stands. */
export interface Yaml {
  readonly root: ParsedNode | null
  readonly faults: readonly Fault[]
  /** Something is wrong beyond a key that stands twice, so the value may not be what was meant. */
  readonly broken: boolean
  /** The node itself, or what it stands for when it is an alias; undefined when there is no such anchor. */
  follow(node: ParsedNode | null): ParsedNode | null | undefined
}

/** Parses one document of YAML 1.2. Keys are always texts. Never throws. */
export const parseYaml = (text: string): Yaml => {
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
    faults: [...once(errors.map(error => toFault(error, text))), ...(isOld ? [oldVersion] : [])],
    broken: isOld || errors.some(error => error.code !== 'DUPLICATE_KEY'),
    follow: follower(document),
  }
}

/** What this gives for a text takes its place in the value. */
export type ReadText = (text: string, isPlain: boolean, path: Path) => string

/** The plain value of a parsed text, and the faults that show only now: aliases that lead nowhere or never end. */
export const toValue = (yaml: Yaml, readText: ReadText): { value: unknown; faults: readonly Fault[] } => {
  if (yaml.broken) return { value: undefined, faults: [] }
  const faults: Fault[] = []
  let left = mostNodes

  const read = (node: ParsedNode | null, path: Path, within: readonly ParsedNode[]): unknown => {
    left -= 1
    if (left < 0) return undefined
    if (within.length > mostLevels) return refuse(node, tooDeep)
    if (isAlias(node)) return readAlias(node, path, within)
    if (isMap(node)) {
      const inside = [...within, node]
      return Object.fromEntries(
        node.items.map(pair => {
          const key = keyOf(pair)
          return [key, read(pair.value, [...path, key], inside)]
        }),
      )
    }
    if (isSeq(node)) {
      const inside = [...within, node]
      return node.items.map((item, index) => read(item, [...path, index], inside))
    }
    return isScalar(node) ? readScalar(node, path) : null
  }

  const refuse = (node: ParsedNode | null, message: string): undefined => {
    faults.push({ offset: node?.range[0] ?? 0, message })
  }

  const readScalar = (node: Scalar, path: Path): unknown =>
    typeof node.value === 'string' ? readText(node.value, node.type === 'PLAIN', path) : node.value

  const readAlias = (alias: Alias.Parsed, path: Path, within: readonly ParsedNode[]): unknown => {
    const node = yaml.follow(alias)
    if (node && !within.includes(node)) return read(node, path, within)
    return refuse(
      alias,
      node
        ? `the alias *${alias.source} stands inside what it names`
        : `the alias *${alias.source} has no anchor &${alias.source} above it`,
    )
  }

  const value = read(yaml.root, [], [])
  return { value, faults: left < 0 ? [tooLarge] : faults }
}

/** The pair with this key; of several the last, as in the value. */
export const pairAt = (map: YAMLMap.Parsed, key: string | number): Pair<ParsedNode, ParsedNode | null> | undefined =>
  map.items.findLast(pair => keyOf(pair) === String(key))

const keyOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key)

// Far more than any configuration has; aliases of aliases reach it from a few lines.
const mostNodes = 100_000
const mostLevels = 100
const tooLarge = { offset: 0, message: `the file holds more than ${mostNodes} values, with those its aliases repeat` }
const tooDeep = 'maps and lists are nested too deeply'
const oldVersion = { offset: 0, message: 'the file must be YAML 1.2, not 1.1', hint: 'leave out the line `%YAML 1.1`' }

const follower = (document: Document): Yaml['follow'] => {
  const known = new Map<Alias, ParsedNode | undefined>()
  return node => {
    if (!isAlias(node)) return node
    // What a parsed alias stands for was parsed, too.
    if (!known.has(node)) known.set(node, node.resolve(document) as ParsedNode | undefined)
    return known.get(node)
  }
}

/** One mistake often gives a train of errors: each line tells its first. */
const once = (faults: readonly LineFault[]): readonly Fault[] => {
  const told = new Set<number>()
  return faults.filter(({ line }) => !told.has(line) && told.add(line)).map(({ line, ...fault }) => fault)
}

interface LineFault extends Fault {
  /** Where its line begins. */
  readonly line: number
}

const toFault = (error: YAMLError, text: string): LineFault => {
  const offset = error.pos[0]
  const line = text.slice(0, offset).lastIndexOf('\n') + 1
  const isBare = /(^|[^"'\w])\$\{/.test(text.slice(line, offset + 1))
  return {
    offset,
    line,
    message: retell(error),
    ...(isBare && { hint: 'put a text that holds a variable in quotes: "${VAR}"' }),
  }
}

/** In words for who does not know the grammar; what hardly anybody meets stays as the parser says it. */
const retell = ({ code, message }: YAMLError): string => {
  const [, bracket, quote] = /^Flow .* end with a (.)$|^Missing closing (.)quote$/.exec(message) ?? []
  if (bracket !== undefined) return `a closing ${bracket} is missing, or a line before it is not indented`
  if (quote !== undefined) return `a closing ${quote} is missing`
  return sentences[code] ?? `${message.charAt(0).toLowerCase()}${message.slice(1)}`
}

const sentences: Partial<Record<YAMLError['code'], string>> = {
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
