import { isCollection, isMap, isScalar, isSeq } from 'yaml'
import type { ParsedNode } from 'yaml'
import type { Path } from '../plugin.ts'
import { maskLine } from './mask.ts'
import type { Problem } from './problem.ts'
import { pairAt } from './yaml.ts'
import type { Yaml } from './yaml.ts'

/** Where the value at the path begins; where nothing stands, the key of the nearest thing around it. */
export const valueOffset = (yaml: Yaml, path: Path): number => {
  const { node, key, exact } = find(yaml, path)
  const begins = isCollection(node) ? node.flow === true : isScalar(node) ? node.source !== '' : node !== null
  // A block map or an empty value has nothing to point at but its key.
  return offsetOf(exact && begins ? node : (key ?? node))
}

/** Where the key begins that holds the value at the path, or the value itself when it is an item of a list. */
export const keyOffset = (yaml: Yaml, path: Path): number => {
  const { node, key } = find(yaml, path)
  return offsetOf(key ?? node)
}

/** The line and column of an offset, and the line's text. */
export const placeOf = (text: string, offset: number): Pick<Problem, 'line' | 'column' | 'source'> => {
  // What is missing at the end of a file is missing after its last word.
  const before = text.slice(0, Math.min(offset, text.trimEnd().length))
  const start = before.lastIndexOf('\n') + 1
  const line = text.slice(start).split(/\r?\n/, 1).join('')
  return {
    line: before.split('\n').length,
    column: [...before.slice(start)].length + 1,
    ...(line.trim() !== '' && { source: maskLine(line) }),
  }
}

interface Found {
  readonly node: ParsedNode | null
  /** The key that holds the node, when a map does. */
  readonly key?: ParsedNode
  /** The path ends here; otherwise this is the nearest thing around it. */
  readonly exact: boolean
}

/** Follows aliases on its way, but ends at one: that is where the value was asked for. */
const find = (yaml: Yaml, path: Path): Found =>
  path.reduce<Found>(
    (here, part) => {
      const next = here.exact ? step(yaml.follow(here.node), part) : undefined
      return next ?? { ...here, exact: false }
    },
    { node: yaml.root, exact: true },
  )

const step = (node: ParsedNode | null | undefined, part: string | number): Found | undefined => {
  if (isMap(node)) {
    const pair = pairAt(node, part)
    return pair && { node: pair.value, key: pair.key, exact: true }
  }
  const item = isSeq(node) ? node.items[Number(part)] : undefined
  return item && { node: item, exact: true }
}

const offsetOf = (node: ParsedNode | null): number => node?.range[0] ?? 0
