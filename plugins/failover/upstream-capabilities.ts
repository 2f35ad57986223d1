import { blockSelectorOf, createNameMatcher } from '../../src/plugin/plugin.ts'
import type { Heads, Method, MethodTable, Request, BlockSelector, ChainSnapshot } from '../../src/plugin/plugin.ts'
import type { FailoverOptions } from './failover-options.ts'

/** What an upstream states that it can do. */
type Capabilities = Pick<FailoverOptions['upstreams'][number], 'name' | 'methods' | 'archive' | 'history'>

interface Named {
  readonly name: string
}

/** How well an upstream fits a call. */
type Fitness = 'able' | 'perhapsAble' | 'lacksState' | 'lacksMethod'

/** Which upstreams can answer a call, by what the options say of them. */
export interface UpstreamCapabilities {
  /** False for a method that no upstream answers. */
  offers(method: string): boolean
  /**
   * Those of the upstreams that can answer the call, first those of which that is certain, otherwise in the same order. When all
   * that answer the method lack the state, they are asked all the same: the error of a node says more than one of the gateway.
   */
  select<N extends Named>(upstreams: readonly N[], request: Request, method: Method | undefined): readonly N[]
}

/** Undefined when no upstream states what it can do: then all are asked alike. */
export const createUpstreamCapabilities = (
  upstreams: readonly Capabilities[],
  { methods, heads }: { readonly methods: MethodTable; readonly heads: Pick<Heads, 'snapshot'> },
): UpstreamCapabilities | undefined => {
  if (upstreams.every(({ methods, archive, history }) => methods === undefined && archive !== true && history === undefined))
    return undefined
  const byName = new Map(upstreams.map(upstream => [upstream.name, { ...upstream, answers: methodsOf(upstream, methods) }]))

  const fitnessFor = (request: Request, method: Method | undefined) => {
    const age = method?.readsState === true ? stateAgeOf(request, method, heads) : 0
    return ({ name }: Named): Fitness => {
      const upstream = byName.get(name)
      if (upstream?.answers(request.method) !== true) return 'lacksMethod'
      return fitnessForState(upstream, age)
    }
  }
  return {
    offers: name => Array.from(byName.values()).some(({ answers }) => answers(name)),
    select(upstreams, request, method) {
      const fitnessOf = fitnessFor(request, method)
      const ofFitness = (fitness: Fitness) => upstreams.filter(upstream => fitnessOf(upstream) === fitness)
      const fit = [...ofFitness('able'), ...ofFitness('perhapsAble')]
      return fit.length > 0 ? fit : ofFitness('lacksState')
    },
  }
}

/** The methods of the table are matched once, not with each call. */
const methodsOf = ({ methods: patterns }: Capabilities, table: MethodTable): ((name: string) => boolean) => {
  if (patterns === undefined) return () => true
  const matches = createNameMatcher(patterns)
  const known = new Set(table.names.filter(matches))
  return name => known.has(name) || (table.get(name) === undefined && matches(name))
}

/** How old the state is that the call is about; undefined where that cannot be known, as for a transaction by its hash. */
const stateAgeOf = ({ params }: Request, method: Method, { snapshot }: Pick<Heads, 'snapshot'>): number | undefined => {
  const blocks = blockSelectorOf(method, params)
  return blocks && oldestBlockAge(blocks, snapshot)
}

const fitnessForState = ({ archive, history }: Capabilities, age: number | undefined): Fitness => {
  if (archive === true) return 'able'
  if (age === undefined) return 'perhapsAble'
  if (history !== undefined) return age < history ? 'able' : 'lacksState'
  return age < fullStateBlocks ? 'able' : 'perhapsAble'
}

/** Full nodes have the state of so many newest blocks. */
export const fullStateBlocks = 128

/**
 * How many blocks the oldest of the blocks is below the head; Infinity for `earliest`. Undefined where that cannot be known: for
 * a block by its hash, and for numbers while there is no head.
 */
export const oldestBlockAge = (blocks: BlockSelector, snapshot: Pick<ChainSnapshot, 'head' | 'finalizedBlockOf'>): number | undefined => {
  if ('hash' in blocks) return undefined
  const { from } = blocks
  if (from === 'earliest') return Infinity
  // Finalized blocks are hours old on some networks; safe blocks lie between them and the head.
  const number = from === 'finalized' || from === 'safe' ? snapshot.finalizedBlockOf()?.number : from
  if (typeof number !== 'number') return 0
  return snapshot.head === undefined ? undefined : Math.max(0, snapshot.head - number)
}
