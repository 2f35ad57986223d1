import type { Json } from '../plugin/call.ts'
import type { Clock } from '../services/clock.ts'
import { isJsonArray, parseHexQuantity, toHexQuantity } from '../util/json.ts'

interface FakeChainOptions {
  readonly chainId: number
  /** In ms. */
  readonly blockTime: number
  readonly clock: Clock
}

/** The newest block when a test begins. */
const initialHeightBlocks = 1_000

/** Blocks from the newest to the newest finalized one, and to the newest safe one. */
const finalityDepthBlocks = 64
const safeDepthBlocks = 32

/** A chain that grows by one block each block time, as every fake upstream reports it unless a test scripts the method. */
export class FakeChain {
  readonly #options: FakeChainOptions
  readonly #startedAtMs: number

  constructor(options: FakeChainOptions) {
    this.#options = options
    this.#startedAtMs = options.clock.monotonic()
  }

  get head(): number {
    const { clock, blockTime } = this.#options
    return initialHeightBlocks + Math.floor((clock.monotonic() - this.#startedAtMs) / blockTime)
  }

  /** The result of the methods about the chain itself; undefined for any other method. */
  resultOf(method: string, params: Json): Json | undefined {
    const [selector] = isJsonArray(params) ? params : []
    switch (method) {
      case 'eth_chainId':
        return toHexQuantity(this.#options.chainId)
      case 'eth_blockNumber':
        return toHexQuantity(this.head)
      case 'eth_getBlockByNumber':
        return this.#blockAt(this.#numberOf(selector))
      case 'eth_getBlockByHash':
        return this.#blockAt(numberOfHash(selector))
      default:
        return undefined
    }
  }

  #numberOf(selector: Json | undefined): number | undefined {
    if (selector === 'finalized') return this.head - finalityDepthBlocks
    if (selector === 'safe') return this.head - safeDepthBlocks
    return selector === 'earliest' ? 0 : selector === 'latest' || selector === 'pending' ? this.head : parseHexQuantity(selector)
  }

  #blockAt(number: number | undefined): Json {
    if (number === undefined || number > this.head) return null
    const ageMs = (this.head - number) * this.#options.blockTime
    return {
      number: toHexQuantity(number),
      hash: hashOf(number),
      parentHash: hashOf(number - 1),
      timestamp: toHexQuantity(Math.floor((this.#options.clock.now() - ageMs) / 1000)),
      transactions: [],
    }
  }
}

const hashPrefix = '0xb10c'

/** The hash of a block holds its number. */
const hashOf = (number: number): string => hashPrefix + Math.max(0, number).toString(16).padStart(60, '0')

const numberOfHash = (hash: Json | undefined): number | undefined =>
  typeof hash === 'string' && hash.startsWith(hashPrefix) ? Number.parseInt(hash.slice(hashPrefix.length), 16) : undefined
