import { createHash, randomBytes } from 'node:crypto'
import { neverExpires } from '../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../store/record-store.ts'
import { StoreError } from '../store/store.ts'
import type { Json, JsonObject } from '../util/json.ts'
import type { Clock } from './clock.ts'
import { nodeId } from './drained-nodes.ts'
import type { DrainedNodes } from './drained-nodes.ts'
import type { Log } from './log.ts'

/** A wrong result of a node, and what shows that it is wrong. */
export interface Evidence {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly time: number
  readonly network: string
  readonly upstream: string
  /** Of the call. */
  readonly methodClass: string
  /** What is not so. */
  readonly cause: string
  /** What the node was sent. */
  readonly request: { readonly method: string; readonly params: readonly Json[] }
  /** JSON text, of which the first bytes are kept. */
  readonly answer: string
  readonly answerBytes: number
  /** Of the whole text, in hex. */
  readonly answerSha256: string
  /** The header of the block that the result does not fit; null where the result contradicts itself. */
  readonly header: JsonObject | null
}

/** What a plugin has found. */
export interface EvidenceInput extends Pick<Evidence, 'upstream' | 'methodClass' | 'cause' | 'request' | 'header'> {
  readonly answer: Buffer
}

/** For plugins that find wrong results. */
export interface EvidenceRecords {
  /**
   * Keeps it in the store, in the background; returns its id. Undefined where the same node has just been wrong about the same method: one a minute is
   * kept of what does not fit a header, and one of other wrong results.
   */
  add(input: EvidenceInput): string | undefined
  /** The nodes, and classes of methods, of which a wrong result is kept that does not fit a header. */
  proven(): Promise<readonly Pick<Evidence, 'upstream' | 'methodClass'>[]>
}

/** The oldest go first, except those that show last that a node has lied in a class of methods: they are known after a restart by them alone. */
const maxEntries = 200
const maxAnswerBytes = 16_384
/** A filter may have 5,000 topics. */
const maxParamsChars = 8_192
const minIntervalMs = 60_000
const kind = 'evidence'

type EvidenceStore = Pick<RecordStore, 'putRecord' | 'takeRecord' | 'findRecord' | 'records'>

/** The newest first. */
export const readEvidence = async (store: Pick<RecordStore, 'records'>): Promise<readonly Evidence[]> =>
  (await store.records(kind, '')).map(toEvidence).toReversed()

/** Without what it was sent and what it answered. */
export interface EvidenceSummary extends Pick<Evidence, 'id' | 'time' | 'network' | 'upstream' | 'cause'> {
  readonly method: string
  /** The result does not fit the header of its block. */
  readonly isProven: boolean
}

interface EvidenceFilter {
  readonly network?: string | undefined
  readonly node?: string | undefined
  /** Milliseconds since 1970. */
  readonly since?: number | undefined
}

/** The newest first. */
export const summarizeEvidence = async (
  store: Pick<RecordStore, 'records'>,
  { network, node, since = 0 }: EvidenceFilter,
): Promise<readonly EvidenceSummary[]> =>
  (await readEvidence(store))
    .filter(
      each => (network === undefined || each.network === network) && (node === undefined || each.upstream === node) && each.time >= since,
    )
    .map(toEvidenceSummary)

export const toEvidenceSummary = ({ id, time, network, upstream, cause, request, header }: Evidence): EvidenceSummary => ({
  id,
  time,
  network,
  upstream,
  cause,
  method: request.method,
  isProven: header !== null,
})

export const findEvidence = async (store: Pick<RecordStore, 'findRecord'>, id: string): Promise<Evidence | undefined> => {
  const record = await store.findRecord(kind, id)
  return record && toEvidence(record)
}

/** Removes what is kept about a node; returns how much that was. */
export const clearEvidence = async (
  store: EvidenceStore,
  { network, upstream }: Pick<Evidence, 'network' | 'upstream'>,
): Promise<number> => {
  const found = (await readEvidence(store)).filter(each => each.network === network && each.upstream === upstream)
  for (const { id } of found) await store.takeRecord(kind, id)
  return found.length
}

const toEvidence = ({ value }: StoredRecord): Evidence => value as unknown as Evidence // written by add() alone

interface EvidenceWriterOptions {
  readonly store: EvidenceStore
  readonly clock: Clock
  readonly log: Log
  readonly drainedNodes?: Pick<DrainedNodes, 'onReadmitted'>
}

/** Keeps wrong results of all networks: bounded in number and bytes. */
export class EvidenceWriter {
  readonly #options: EvidenceWriterOptions
  readonly #added = new Map<string, { readonly node: string; readonly at: number }>()
  #writing: Promise<void> = Promise.resolve()

  constructor(options: EvidenceWriterOptions) {
    this.#options = options
    options.drainedNodes?.onReadmitted(node => this.#forget(nodeId(node)))
  }

  of(network: string): EvidenceRecords {
    return {
      add: input => this.#add(network, input),
      proven: async () => (await readEvidence(this.#options.store)).filter(each => each.network === network && each.header !== null),
    }
  }

  /** Resolves once all has been written. */
  async whenIdle(): Promise<void> {
    await this.#writing
  }

  #add(network: string, { answer, request, ...input }: EvidenceInput): string | undefined {
    const { clock } = this.#options
    const node = nodeId({ network, upstream: input.upstream })
    const key = JSON.stringify([node, request.method, input.header !== null])
    const at = clock.monotonic()
    if (at - (this.#added.get(key)?.at ?? -Infinity) < minIntervalMs) return undefined
    if (this.#added.size >= maxEntries) this.#added.clear()
    this.#added.set(key, { node, at })
    const time = clock.now()
    const evidence: Evidence = {
      ...input,
      id: `${time.toString(36).padStart(9, '0')}-${randomBytes(3).toString('hex')}`,
      time,
      network,
      request: { method: request.method, params: shorten(request.params) },
      answer: answer.subarray(0, maxAnswerBytes).toString(),
      answerBytes: answer.length,
      answerSha256: createHash('sha256').update(answer).digest('hex'),
    }
    this.#writing = this.#writing.then(() => this.#write(evidence))
    return evidence.id
  }

  /** Its evidence was removed: what it is found wrong about from now on is kept again. */
  #forget(node: string): void {
    for (const [key, added] of this.#added) if (added.node === node) this.#added.delete(key)
  }

  async #write(evidence: Evidence): Promise<void> {
    const { store, log } = this.#options
    try {
      await store.putRecord(kind, { id: evidence.id, account: '', value: evidence as unknown as Json, expires: neverExpires }) // of JSON
      for (const { id } of excessOf(await readEvidence(store))) await store.takeRecord(kind, id)
    } catch (error) {
      // The ledger logs that the store is unreachable.
      if (!(error instanceof StoreError)) log.error({ err: error }, 'evidence could not be kept because of a bug')
    }
  }
}

/** `all` is the newest first. */
const excessOf = (all: readonly Evidence[]): readonly Evidence[] => {
  if (all.length <= maxEntries) return []
  const lies = new Map<string, Evidence>()
  for (const evidence of all.toReversed()) if (evidence.header !== null) lies.set(`${nodeId(evidence)} ${evidence.methodClass}`, evidence)
  const last = new Set(lies.values())
  return all.filter(evidence => !last.has(evidence)).slice(Math.max(0, maxEntries - last.size))
}

const shorten = (params: readonly Json[]): readonly Json[] => {
  const text = JSON.stringify(params)
  return text.length <= maxParamsChars ? params : [`${text.slice(0, maxParamsChars)}…`]
}
