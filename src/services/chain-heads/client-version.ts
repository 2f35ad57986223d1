import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import { singleFlight } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import { parseResult } from './upstream-requests.ts'

interface ClientVersionOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  /** Sends web3_clientVersion. */
  request(): Promise<Reply>
  /** Lost connections to the upstream: after one, another node may be at its URL. */
  disconnects(): number
}

/** A node that is asked again, or has not answered, is asked no sooner than this. */
const minIntervalMs = 60_000

/** The software of an upstream: asked for when somebody looks at it, and again after it was gone. */
export class ClientVersion {
  readonly #options: ClientVersionOptions
  #disconnects = -1
  #askedAt = -Infinity
  #client: string | undefined

  constructor(options: ClientVersionOptions) {
    this.#options = options
  }

  /** `Geth v1.13.5-stable`; undefined before it was asked, and of a node that does not say. */
  get client(): string | undefined {
    return this.#client
  }

  readonly ask = singleFlight(() => this.#ask())

  async #ask(): Promise<void> {
    const { clock, request, disconnects } = this.#options
    const now = clock.monotonic()
    if (this.#disconnects === disconnects() || now - this.#askedAt < minIntervalMs) return
    this.#askedAt = now
    const reply = await request()
    if (isFailure(reply) && reply.fault !== 'caller') return
    // A request may open a connection after one that was lost.
    this.#disconnects = disconnects()
    this.#client = parseClient(parseResult(reply))
  }
}

const namePattern = /^[a-z][\w.-]{0,30}$/i
const versionPattern = /^v?\d[\w.+-]{0,50}$/i

/**
 * Of `Geth/NAME/v1.13.5-stable/linux-amd64/go1.21`, what runs there and nothing else: the node may be named after its host. Undefined for a text of
 * another form.
 */
export const parseClient = (result: unknown): string | undefined => {
  if (typeof result !== 'string') return undefined
  const [name = '', ...parts] = result.split('/')
  const version = parts.find(part => versionPattern.test(part))
  return namePattern.test(name) && version !== undefined ? `${name} ${version}` : undefined
}
