import { isMap, isScalar, isSeq } from 'yaml'
import type { Pair, ParsedNode, YAMLMap } from 'yaml'

export type ParsedPair = Pair<ParsedNode, ParsedNode | null>

/** What the entries of a map depend on besides the map itself. */
export interface MergeContext {
  /** The node itself, or the node that an alias refers to; undefined when its anchor does not exist. */
  resolveAlias(node: ParsedNode | null): ParsedNode | null | undefined
  /** Called for each value of `<<` that is not a map. */
  readonly onInvalid?: (node: ParsedNode | null) => void
}

/**
 * The entries of a map, with those that it takes from other maps by the key `<<` (the merge key of YAML 1.1). Its own entries
 * come first and take precedence; of several maps the first takes precedence. Each map is taken once, so that cycles end.
 */
export const entriesOf = (map: YAMLMap.Parsed, context: MergeContext): readonly ParsedPair[] => {
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

export const keyOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key)

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
