import { neverExpires } from '../store/record-store.ts'
import type { RecordStore } from '../store/record-store.ts'
import { StoreError } from '../store/store.ts'
import { dayMs } from '../util/dates.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { ChangeAuthor } from './accounts/change-history.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { everyMs, startRounds } from './rounds.ts'
import type { BackgroundTask } from './rounds.ts'

/** An upstream of a network, or its partner. */
export interface NodeName {
  readonly network: string
  readonly upstream: string
}

/** A node that an operator has drained: it gets no new calls until that ends or is undone, on every gateway that uses the store. */
export interface DrainedNode extends NodeName {
  /** Milliseconds since 1970. */
  readonly since: number
  readonly by: ChangeAuthor
  readonly reason?: string
  /** When it ends by itself. Milliseconds since 1970. */
  readonly until?: number
}

export const nodeId = ({ network, upstream }: NodeName): string => `${network}/${upstream}`

/** False where it is drained already. */
export const drainNode = (store: Pick<RecordStore, 'addRecord'>, { by, ...node }: DrainedNode): Promise<boolean> =>
  store.addRecord('drained-node', {
    id: nodeId(node),
    account: '',
    value: { ...node, by: { ...by } },
    expires: node.until ?? neverExpires,
  })

/** False where it is not drained. */
export const undrainNode = async (store: Pick<RecordStore, 'takeRecord'>, node: NodeName): Promise<boolean> =>
  (await store.takeRecord('drained-node', nodeId(node))) !== undefined

export const readDrainedNodes = async (store: Pick<RecordStore, 'records'>): Promise<readonly DrainedNode[]> =>
  (await store.records('drained-node', '')).map(({ value }) => value as unknown as DrainedNode) // written by drainNode() alone

/** What nodes have returned before counts no more, on every gateway that uses the store. */
export const readmitNode = (store: Pick<RecordStore, 'putRecord'>, { network, upstream }: NodeName, now: number): Promise<void> =>
  store.putRecord('readmitted-node', {
    id: nodeId({ network, upstream }),
    account: '',
    value: { network, upstream, at: now },
    expires: now + dayMs,
  })

interface ReadmittedNode extends NodeName {
  readonly at: number
}

const readReadmittedNodes = async (store: Pick<RecordStore, 'records'>): Promise<readonly ReadmittedNode[]> =>
  (await store.records('readmitted-node', '')).map(({ value }) => value as unknown as ReadmittedNode) // written by readmitNode() alone

interface DrainedNodesOptions {
  readonly store: Pick<RecordStore, 'records'>
  readonly clock: Clock
  readonly log: Log
}

/** Within this time every process keeps calls away from a node that is drained. */
const readIntervalMs = 1_000

/** The drained and the readmitted nodes, as one process that serves calls knows them. While the store is unreachable, what it has read last stays, until its end. */
export class DrainedNodes {
  readonly #options: DrainedNodesOptions
  /** False until they have been read for the first time, and while they cannot be read: others may know better what is drained. */
  isCurrent = false
  #drained: readonly DrainedNode[] = []
  #ids: ReadonlySet<string> = new Set()
  #byNetwork: ReadonlyMap<string, ReadonlySet<string>> = new Map()
  /** The times of all that are known, by node; undefined before the first reading. */
  #readmittedAt: ReadonlyMap<string, number> | undefined
  readonly #readmissionListeners: ((node: NodeName) => void)[] = []
  readonly #changeListeners = new Set<() => void>()
  #rounds: BackgroundTask | undefined

  constructor(options: DrainedNodesOptions) {
    this.#options = options
  }

  /** The drained nodes of a network: the same set until one is added or removed. */
  of(network: string): ReadonlySet<string> {
    return this.#byNetwork.get(network) ?? none
  }

  /** When it was drained, in ms since 1970; undefined where it is not. */
  since(node: NodeName): number | undefined {
    const id = nodeId(node)
    return this.#ids.has(id) ? this.#drained.find(each => nodeId(each) === id)?.since : undefined
  }

  /** `listener` is called when they become current, and whenever nodes have been drained, or are drained no longer. Returns how to end that. */
  onChange(listener: () => void): () => void {
    this.#changeListeners.add(listener)
    return () => void this.#changeListeners.delete(listener)
  }

  /** From now on `readmit` is called for each node that operators readmit. */
  onReadmitted(readmit: (node: NodeName) => void): void {
    this.#readmissionListeners.push(readmit)
  }

  /** Resolves once they are known, so that a gateway that starts sends no call to a drained node; or when the store is unreachable: it is read each second. */
  async start(): Promise<void> {
    const { clock, log } = this.#options
    const reportFailure = (error: unknown): void => log.error({ err: error }, 'drained nodes could not be read because of a bug')
    await this.#read().catch(reportFailure)
    this.#rounds = startRounds({ clock, run: () => this.#read(), firstMs: readIntervalMs, restMs: everyMs(readIntervalMs), reportFailure })
  }

  async stop(): Promise<void> {
    await this.#rounds?.stop()
  }

  async #read(): Promise<void> {
    try {
      const drained = await readDrainedNodes(this.#options.store)
      const readmitted = await readReadmittedNodes(this.#options.store)
      const isNews = !this.isCurrent
      this.isCurrent = true
      this.#set(drained, isNews)
      this.#readmit(readmitted)
    } catch (error) {
      this.isCurrent = false
      // The ledger logs that the store is unreachable.
      if (!(error instanceof StoreError)) throw error
      const now = this.#options.clock.now()
      this.#set(this.#drained.filter(({ until = neverExpires }) => until > now))
    }
  }

  /** A process that starts knows nothing of a node, unless evidence of it is kept. */
  #readmit(nodes: readonly ReadmittedNode[]): void {
    const known = this.#readmittedAt
    this.#readmittedAt = new Map(nodes.map(node => [nodeId(node), node.at]))
    if (known === undefined) return
    for (const { network, upstream, at } of nodes) {
      if (known.get(nodeId({ network, upstream })) === at) continue
      this.#options.log.info({ event: 'node-readmitted', network, upstream }, 'upstream readmitted: what it has returned counts no more')
      for (const readmit of this.#readmissionListeners) readmit({ network, upstream })
    }
  }

  #set(nodes: readonly DrainedNode[], isNews = false): void {
    this.#drained = nodes
    const ids = new Set(nodes.map(nodeId))
    const added = nodes.filter(node => !this.#ids.has(nodeId(node)))
    const removed = [...this.#ids].filter(id => !ids.has(id))
    if (added.length === 0 && removed.length === 0 && !isNews) return
    const byNetwork = new Map<string, Set<string>>()
    for (const { network, upstream } of nodes) getOrCreate(byNetwork, network, () => new Set<string>()).add(upstream)
    this.#ids = ids
    this.#byNetwork = byNetwork
    const { log } = this.#options
    for (const { network, upstream } of added)
      log.warn({ event: 'node-drained', network, upstream }, 'upstream drained: it gets no new calls')
    for (const id of removed) {
      const [network, ...rest] = id.split('/')
      log.info({ event: 'node-undrained', network, upstream: rest.join('/') }, 'upstream no longer drained')
    }
    for (const listener of this.#changeListeners) listener()
  }
}

const none: ReadonlySet<string> = new Set()
