import type { FeedBlock } from '../../src/plugin/internal.ts'
import { isJsonObject, refuse, toBuffer } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Services } from '../../src/plugin/plugin.ts'

/** Which receipts a subscription gets: those of these transactions, or of all. */
export interface ReceiptFilter {
  /** Equal filters have the same text. */
  readonly key: string
  /** In lower case. Undefined: all. */
  readonly hashes: ReadonlySet<string> | undefined
  readonly valueCount: number
}

/** The second parameter of eth_subscribe, which the rules of the method table have normalized. As in geth, an empty list means all. */
export const parseReceiptFilter = (value: Json | undefined): ReceiptFilter | Failure => {
  const { transactionHashes, ...others } = isJsonObject(value) ? value : {}
  if (typeof value === 'boolean' || Object.values(others).some(other => other !== null))
    return refuse('params', { message: 'eth_subscribe transactionReceipts takes an object with "transactionHashes" alone' })
  const hashes = new Set(Array.isArray(transactionHashes) ? transactionHashes.map(String) : [])
  return { key: [...hashes].join(), hashes: hashes.size === 0 ? undefined : hashes, valueCount: hashes.size }
}

export class BlockReceipts {
  /** One character per byte (latin1). */
  readonly #json: string
  readonly #results: Services['results']
  #byHash: ReadonlyMap<string, string> | undefined

  constructor({ json }: FeedBlock, results: Services['results']) {
    this.#json = Buffer.from(json).toString('latin1')
    this.#results = results
  }

  /** What it takes: the index has the text a second time. */
  get bytes(): number {
    return 2 * this.#json.length
  }

  /** One text, the array of the receipts that match, in order; none where no receipt matches. */
  match({ hashes }: ReceiptFilter): readonly string[] {
    if (hashes === undefined) return /^\s*\[\s*\]\s*$/.test(this.#json) ? [] : [this.#json]
    const receipts = (this.#byHash ??= this.#index())
    const matching = [...receipts].flatMap(([hash, text]) => (hashes.has(hash) ? [text] : []))
    return matching.length === 0 ? [] : [`[${matching.join()}]`]
  }

  #index(): ReadonlyMap<string, string> {
    const receipts = this.#results.extractObjects(Buffer.from(this.#json, 'latin1'), ['transactionHash']) ?? []
    return new Map(
      receipts.map(({ rawJson, members: [hash = ''] }) => [hash.slice(1, -1).toLowerCase(), toBuffer(rawJson).toString('latin1')]),
    )
  }
}
