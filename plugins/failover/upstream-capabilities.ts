import type { BlockSelector } from '../../src/plugin/plugin.ts'
import { createNameMatcher } from '../../src/plugin/plugin.ts'
import type { ChainSnapshot, Heads, MethodTable } from '../../src/plugin/internal.ts'
import type { FailoverOptions } from './failover-options.ts'

/** What an upstream states that it can do. */
type Capabilities = Pick<FailoverOptions['upstreams'][number], 'name' | 'methods' | 'archive' | 'history'>

/** How well an upstream fits a call: the lower the better. */
const fitness = { able: 0, perhapsAble: 1, lacksState: 2, lacksMethod: 3 } as const

/** By the name of the upstream. */
type FitnessOf = (upstream: string) => number

/** Which upstreams can answer a call, by what the options say of them. */
export interface UpstreamCapabilities {
  /** False for a method that no upstream answers. */
  offers(method: string): boolean
  /** How well each upstream fits the call: the lower the better. */
  fitnessFor(method: string, blocks: BlockSelector | undefined): FitnessOf
}

/**
 * Those of the upstreams that can answer the call. When all that answer the method lack the state, they are asked all the same: the error of a
 * node says more than one of the gateway.
 */
export const capableOf = <N extends { readonly name: string }>(upstreams: readonly N[], fitnessOf: FitnessOf): readonly N[] => {
  const capable = upstreams.filter(({ name }) => fitnessOf(name) < fitness.lacksState)
  return capable.length > 0 ? capable : upstreams.filter(({ name }) => fitnessOf(name) === fitness.lacksState)
}

/** Undefined when no upstream states what it can do: then all are asked alike. */
export const createUpstreamCapabilities = (
  upstreams: readonly Capabilities[],
  { methods, heads }: { readonly methods: MethodTable; readonly heads: Pick<Heads, 'snapshot'> },
): UpstreamCapabilities | undefined => {
  if (upstreams.every(({ methods, archive, history }) => methods === undefined && archive !== true && history === undefined))
    return undefined
  const byName = new Map(upstreams.map(upstream => [upstream.name, { ...upstream, answers: methodsOf(upstream, methods) }]))

  return {
    offers: name => Array.from(byName.values()).some(({ answers }) => answers(name)),
    fitnessFor(method, blocks) {
      // Undefined where the age cannot be known, as for a transaction by its hash.
      const age = methods.get(method)?.readsState === true ? blocks && oldestBlockAge(blocks, heads.snapshot) : 0
      return name => {
        const upstream = byName.get(name)
        return upstream?.answers(method) === true ? fitnessForState(upstream, age) : fitness.lacksMethod
      }
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

const fitnessForState = ({ archive, history }: Capabilities, age: number | undefined): number => {
  if (archive === true) return fitness.able
  if (age === undefined) return fitness.perhapsAble
  if (history !== undefined) return age < history ? fitness.able : fitness.lacksState
  return age < fullStateBlocks ? fitness.able : fitness.perhapsAble
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
