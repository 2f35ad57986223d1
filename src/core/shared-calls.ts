import { randomBytes } from 'node:crypto'
import type { Step } from '../config/types.ts'
import type { Call, CallContext, ContextKey, Origin, OriginState, Signal } from '../plugin/call.ts'
import type { DirectNext } from '../plugin/direct-stage.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import type { Services } from '../services/index.ts'
import type { Log } from '../services/log.ts'

// Calls below a plugin that shares answers between callers: they have no caller, but of each plugin below what its vary() says of one.

/** The position of the step that shares answers between callers; -1 when none does. The loader accepts one at most. */
export const sharerIndexOf = (steps: readonly Step[]): number => steps.findIndex(({ plugin }) => plugin.shares === true)

/** Reads the variant of the step from the shared call; above the plugin that shares, vary() is called. */
export const variantReader = (steps: readonly Step[], i: number): ((call: Call) => string | undefined) | undefined => {
  const step = steps[i]
  const sharerIndex = sharerIndexOf(steps)
  if (step === undefined || !varies(step) || i === sharerIndex) return undefined
  if (sharerIndex < 0 || i < sharerIndex) return varyReader(step)
  const position = steps.slice(sharerIndex + 1, i).filter(varies).length
  return ({ origin }) => (origin instanceof SharedOrigin ? origin.variantAt(position) : undefined)
}

export const varies = ({ plugin }: Step): boolean => plugin.vary !== undefined

// Each plugin sees the context that it reads; the loader has proved that it is written by now.
const varyReader =
  ({ name, plugin, file, options }: Step): Services['vary'] =>
  call => {
    try {
      const text: unknown = plugin.vary?.(call.context as Pick<never, ContextKey & never>, options as never, call.origin)
      // The types promise it, but not for a plugin written in JavaScript: objects of different callers have one text.
      if (typeof text !== 'string') throw new TypeError('vary() must return a text')
      return text
    } catch (bug) {
      throw file === undefined ? bug : new PluginFault({ name, file }, bug)
    }
  }

/** What the `vary` functions of these steps say of a call, as one text. Most calls in turn vary alike: what the last one varied by is not joined again. */
export const varyBelow = (steps: readonly Step[]): Services['vary'] => {
  const readers = steps.filter(varies).map(varyReader)
  const [only] = readers
  if (only === undefined) return () => ''
  if (readers.length === 1) return only
  const texts = readers.map(() => '')
  let joined: string | undefined
  return call => {
    for (let i = 0; i < readers.length; i++) {
      const text = readers[i]!(call)
      if (text === texts[i]) continue
      texts[i] = text
      joined = undefined
    }
    return (joined ??= joinVariants(texts))
  }
}

/** With their lengths, because the texts may hold anything that callers send: a separator would not tell where one ends. */
const joinVariants = (texts: readonly string[]): string => texts.map(text => `${text.length} ${text}`).join('')

/** Splits what varyBelow() made one text of; that of the last call is not split again. */
const variantSplitter = (count: number): ((joined: string) => readonly string[]) => {
  if (count < 2) return joined => [joined]
  let last: string | undefined
  let texts: readonly string[] = []
  return joined => {
    if (joined !== last) [last, texts] = [joined, splitVariants(joined)]
    return texts
  }
}

const splitVariants = (joined: string): readonly string[] => {
  const texts: string[] = []
  for (let at = 0; at < joined.length; ) {
    const start = joined.indexOf(' ', at) + 1
    at = start + Number(joined.slice(at, start))
    texts.push(joined.slice(start, at))
  }
  return texts
}

interface SharingOptions {
  /** The steps below that have vary(), in their order. */
  readonly varyingSteps: readonly Step[]
  readonly log: Log
}

/**
 * The rest of the pipeline for calls without a caller. What may be shared is made from what is shared by: the request and the
 * variants. So nothing else of a caller can get into an answer for another, whatever the plugins below read.
 */
export const withoutCaller = (next: DirectNext, sharer: Step, { varyingSteps, log }: SharingOptions): DirectNext => {
  const ownKeys: readonly ContextKey[] = sharer.plugin.writes ?? []
  const vary = varyBelow(varyingSteps)
  const split = variantSplitter(varyingSteps.length)
  return call => {
    const above: Pick<CallContext, 'request'> & Partial<CallContext> = (call as Call<'request'>).context // the loader has checked it
    const { method, params } = above.request
    const origin = new SharedOrigin(call, split(call.variant ?? vary(call)))
    log.debug({ requestId: call.origin.requestId, sharedRequestId: origin.requestId }, 'call continues as a shared request')
    const context: Record<string, unknown> = { request: { method, params } }
    for (const key of ownKeys) if (key !== 'request') context[key] = above[key]
    return next({ message: { jsonrpc: '2.0', method, params }, origin, signal: origin.signal, startedAtMs: call.startedAtMs, context })
  }
}

const noHeaders: Origin['headers'] = Object.freeze({})

const sharedRequestIdPrefix = randomBytes(6).toString('hex')
let sharedRequestCount = 0

/** The origin of calls that callers may share: it knows none of them. */
class SharedOrigin implements Origin {
  readonly transport = 'shared'
  readonly network: string
  readonly key = undefined
  readonly originHeader = undefined
  readonly ip = ''
  readonly requestId = `${sharedRequestIdPrefix}-shared-${((sharedRequestCount += 1)).toString(36)}`
  readonly headers = noHeaders
  readonly signal: Signal
  readonly state: OriginState = {}
  readonly #variants: readonly string[]
  readonly #traceparent: string | undefined
  readonly #owner: string

  constructor(call: Call, variants: readonly string[]) {
    const { origin, signal } = call
    this.network = origin.network
    this.signal = signal ?? origin.signal
    this.#variants = variants
    this.#traceparent = SharedOrigin.traceparentOf(call)
    this.#owner = SharedOrigin.ownerOf(origin)
  }

  // These two are no members of the origin, which knows no caller.

  static traceparentOf({ origin }: Pick<Call, 'origin'>): string | undefined {
    return #traceparent in origin ? origin.#traceparent : readTraceparent(origin)
  }

  static ownerOf(origin: Origin): string {
    return #owner in origin ? origin.#owner : (origin.state.accountId ?? origin.ip)
  }

  /** What vary() of one of the plugins below returned, by its position among those that have one. */
  variantAt(position: number): string | undefined {
    return this.#variants[position]
  }
}

/** The services about traces where no spans are recorded. `traceparent`: for a shared call that of the caller for whom it began. */
export const withoutSpans: Pick<Services, 'traceparent' | 'currentSpan'> = {
  traceparent: SharedOrigin.traceparentOf,
  currentSpan: () => undefined,
}

/** The account that a call is for, or the address without one; of a shared call that of the caller for whom it began. */
export const { ownerOf } = SharedOrigin

/** W3C Trace Context, version 00: neither id is all zeros. */
const traceparentPattern = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/

/** The trace that a caller has sent; undefined where there is none, or it is not well-formed. */
const readTraceparent = ({ headers }: Pick<Origin, 'headers'>): string | undefined => {
  const { traceparent } = headers
  return typeof traceparent === 'string' && traceparentPattern.test(traceparent) ? traceparent : undefined
}
