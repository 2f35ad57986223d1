import { isCollection, isMap, isScalar, isSeq } from 'yaml'
import type { ParsedNode } from 'yaml'
import type { Path } from '../plugin/plugin.ts'
import { maskSourceLine } from './mask-secrets.ts'
import type { Problem } from './problem.ts'
import { pairAt } from './yaml-document.ts'
import type { YamlDocument } from './yaml-document.ts'

/** Where the value at the path begins; where nothing stands, the key of the nearest thing around it. */
export const offsetOfValue = (yaml: YamlDocument, path: Path): number => {
  const { node, key, isExact } = findNode(yaml, path)
  const hasOwnStart = isCollection(node) ? node.flow === true : isScalar(node) ? node.source !== '' : node !== null
  // A block map or an empty value has nothing to point at but its key.
  return startOffset(isExact && hasOwnStart ? node : (key ?? node))
}

/** Where the key begins that holds the value at the path, or the value itself when it is an item of a list. */
export const offsetOfKey = (yaml: YamlDocument, path: Path): number => {
  const { node, key } = findNode(yaml, path)
  return startOffset(key ?? node)
}

/** The line and column of an offset, and the line's text. */
export const lineAndColumn = (text: string, offset: number): Pick<Problem, 'line' | 'column' | 'sourceLine'> => {
  // What is missing at the end of a file is missing after its last word.
  const before = text.slice(0, Math.min(offset, text.trimEnd().length))
  const start = before.lastIndexOf('\n') + 1
  const line = text.slice(start).split(/\r?\n/, 1).join('')
  return {
    line: before.split('\n').length,
    column: [...before.slice(start)].length + 1,
    ...(line.trim() !== '' && { sourceLine: maskSourceLine(line) }),
  }
}

interface LocatedNode {
  readonly node: ParsedNode | null
  /** The key that holds the node, when a map does. */
  readonly key?: ParsedNode
  /** The path ends here; otherwise this is the nearest thing around it. */
  readonly isExact: boolean
}

/** Follows aliases on its way, but ends at one: that is where the value was asked for. */
const findNode = (yaml: YamlDocument, path: Path): LocatedNode =>
  path.reduce<LocatedNode>(
    (here, part) => {
      const next = here.isExact ? childNode(yaml.resolveAlias(here.node), part) : undefined
      return next ?? { ...here, isExact: false }
    },
    { node: yaml.root, isExact: true },
  )

const childNode = (node: ParsedNode | null | undefined, part: string | number): LocatedNode | undefined => {
  if (isMap(node)) {
    const pair = pairAt(node, part)
    return pair && { node: pair.value, key: pair.key, isExact: true }
  }
  const item = isSeq(node) ? node.items[Number(part)] : undefined
  return item && { node: item, isExact: true }
}

const startOffset = (node: ParsedNode | null): number => node?.range[0] ?? 0
