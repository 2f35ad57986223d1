import { allClasses } from '../services/node-reasons.ts'

/** A node of a network, as the gateway and the pages know it. */
interface Node {
  readonly partner?: boolean
  /** Null while no gateway answers. */
  readonly usable: boolean | null
  readonly reasons?: readonly { readonly class: string; readonly keepsAway: boolean }[]
}

type IsDrained<Of> = (node: Of) => boolean

/** Own nodes that get calls once `taken` are drained too. */
export const nodesLeft = <Of extends Node>(nodes: readonly Of[], taken: readonly Of[], isDrained: IsDrained<Of>): readonly Of[] =>
  othersOf(nodes, taken, isDrained).filter(({ usable }) => usable !== false)

/** Classes of methods of which no own node gets calls once `taken` are drained too, although one does now; `all` for every class. */
export const classesLost = <Of extends Node>(nodes: readonly Of[], taken: readonly Of[], isDrained: IsDrained<Of>): readonly string[] => {
  const own = taken.filter(({ partner }) => partner !== true)
  const serving = own.filter(({ usable }) => usable !== false)
  const [first, ...rest] = nodesLeft(nodes, taken, isDrained).map(classesKeptFrom)
  // Of nodes that are all down, any may be the one that comes back.
  if (first === undefined)
    return serving.length > 0 || (own.length > 0 && othersOf(nodes, taken, isDrained).length === 0) ? [allClasses] : []
  const lost = Array.from(first).filter(each => rest.every(other => other.has(each)))
  return lost.filter(each => serving.some(node => !classesKeptFrom(node).has(each)))
}

const othersOf = <Of extends Node>(nodes: readonly Of[], taken: readonly Of[], isDrained: IsDrained<Of>): readonly Of[] =>
  nodes.filter(node => node.partner !== true && !taken.includes(node) && !isDrained(node))

/** Of which a node gets no calls, although it gets others. */
const classesKeptFrom = ({ reasons = [] }: Node): ReadonlySet<string> =>
  new Set(reasons.filter(each => each.keepsAway && each.class !== allClasses).map(each => each.class))
