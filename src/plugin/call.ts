import { setMaxListeners } from 'node:events'
import type { Secret } from './secret.ts'
import type { Json } from '../util/json.ts'
import { getOrCreate } from '../util/memoize.ts'

export type { Json } from '../util/json.ts'

/**
 * Where calls come from: one HTTP request, or one WebSocket for as long as it is open. Built once. Below a plugin that
 * `shares`, a call has no caller but all that share it: its origin is `shared`, and knows the network, an id and a signal.
 */
export interface Origin {
  readonly transport: 'http' | 'websocket' | 'shared'
  readonly network: string
  /** The API key of the path or a header, not yet checked; undefined when there is none. */
  readonly key: Secret | undefined
  /** The Origin header: the page that a browser calls from. */
  readonly originHeader: string | undefined
  /** The IP address of the caller, behind the proxies that `listen.trustedProxies` names; empty where it is not known, and for a `shared` origin. */
  readonly ip: string
  /** In logs, in `X-Request-Id` and in internal errors. */
  readonly requestId: string
  /** Request headers in lower case; for a WebSocket those of its upgrade. A `shared` origin has none. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Aborts when the caller disconnects. */
  readonly signal: Signal
  /** What plugins remember for all calls of this origin. */
  readonly state: OriginState
  /** Only for calls that came over a WebSocket by themselves, not in a batch. */
  readonly push?: Push | undefined
}

/** Sends messages over an open WebSocket that are no responses. */
export interface Push {
  /**
   * Sends the pieces as one message, in order: strings with one character per byte (latin1), and bytes. False: the WebSocket is closing;
   * also because its caller does not read, and no more messages fit.
   */
  send(pieces: readonly (string | Uint8Array)[]): boolean
  /**
   * Before work for so many messages, as to find and to send them: undefined when it may begin at once; else it may begin when the promise resolves.
   * The accounts share the time of the event loop so, whatever they are sent.
   */
  turn(messages: number): Promise<void> | undefined
  /** Closes the WebSocket once what was sent has been read; the reason is for the caller, of which 123 bytes are sent. */
  close(code: number, reason: string): void
}

/**
 * A plugin adds members of its own by declaration merging, under its name:
 * `declare module 'tollgate/plugin' { interface OriginState { 'my-plugin'?: Session } }`.
 */
export interface OriginState {
  /**
   * The account whose share of the gateway's memory (`limits.inFlight`) the calls of this origin use. Set in admit(); without it, the
   * share is that of the address.
   */
  accountId?: string
}

/** The method and the params of a message, once its shape has been checked. */
export interface Request {
  readonly method: string
  readonly params: readonly Json[]
}

/** What an account pays for; defined in gateway.yaml. */
export interface Plan {
  readonly name: string
  /** Credits for one UTC day. */
  readonly dailyCredits: number
  /** May eth_getLogs be forwarded to a partner in an outage (contract 4.3.4)? */
  readonly forwarding: boolean
  /** Calls per second of each account, for the plugin `rate-limit`. */
  readonly rate?: number
  /** Calls that may come at once. */
  readonly burst?: number
}

/** The account that is billed. */
export interface Account {
  readonly id: string
  readonly name: string
  readonly plan: Plan
  /** Its calls get one attempt and no hedge: too many of its recent calls failed, free of charge. */
  readonly singleAttempt?: true
  /** What the account does not want to have logged of its requests. */
  readonly requestLog?: RequestLogSetting
}

export type RequestLogSetting = 'withoutParams' | 'off'

/** An API key as it is stored: never the secret itself. A missing list allows everything. */
export interface Key {
  /** Of this key alone: one that replaces it has its name and project, and another id. */
  readonly id: string
  /** What people call it. */
  readonly name?: string
  /** What it is part of: keys of one project are shown together. */
  readonly project?: string
  readonly networks?: readonly string[]
  readonly methods?: readonly string[]
  readonly origins?: readonly string[]
  /** IP addresses and subnets of callers. */
  readonly ips?: readonly string[]
  /** Credits that the key may use of its account's, for one UTC day; without it, all of them. */
  readonly dailyCredits?: number
  /** Calls per second of this key, for the plugin `rate-limit`. */
  readonly rate?: number
  /** Calls of this key that may come at once; as many as `rate` allows in a second if absent. */
  readonly burst?: number
  /** Milliseconds since 1970; the key is refused from then on. */
  readonly expires?: number
  /** What its callers may ask for with the header `Tollgate-Verify`: less or more verification than the network's. Without it, nothing. */
  readonly verify?: readonly ('none' | 'proof')[]
}

/** The node that a call is sent to. */
export interface Target {
  readonly name: string
  readonly url: Secret
  readonly source: 'node' | 'partner'
  /** For subscriptions to new blocks and pending transactions over WebSocket; calls go to `url`, which may be the same. */
  readonly ws?: Secret
  /** HTTP headers of each request, and of the upgrade to a WebSocket. */
  readonly headers?: Readonly<Record<string, Secret>>
  /** Responses may come with gzip. */
  readonly compression?: boolean
  /** Most blocks that the node accepts in one eth_getLogs; a wider range is requested in chunks. */
  readonly maxRange?: number
  /** Most addresses, and most topics in one position, that the node accepts in one eth_getLogs. */
  readonly maxParams?: number
  /** Most concurrent calls; further calls wait up to a second, and then another node is tried. */
  readonly concurrency?: number
  /** Most requests per second for calls; when they are spent, calls go to other nodes. */
  readonly rate?: number
}

/**
 * What plugins pass to the plugins below them. An external plugin adds keys of its own by declaration merging:
 * `declare module 'tollgate/plugin' { interface CallContext { region: string } }`.
 */
export interface CallContext {
  readonly request: Request
  readonly key: Key
  readonly account: Account
  readonly target: Target
  /** The own nodes of the network that are not drained, in the order of its options, whatever else their state is. */
  readonly upstreams: readonly Target[]
}

/** The name of a value of the context. */
export type ContextKey = keyof CallContext

/** One JSON-RPC call. It is never modified: plugins pass a changed copy to `next`. */
export interface Call<Reads extends ContextKey = never> {
  /** The message as it came in, parsed; nothing about it has been checked. */
  readonly message: Json
  readonly origin: Origin
  /**
   * Cancels the work for this call. Undefined means `origin.signal`; `cache` sets it on a request that callers share.
   * toAbortSignal() makes an AbortSignal of it, for fetch() and the like.
   */
  readonly signal?: Signal | undefined
  /** When the call began, by the monotonic clock: `services.clock.monotonic()` less this is how long it has taken. Of a request that callers share, that of the first one. */
  readonly startedAtMs: number
  /** A plugin reads only the keys that it declares in `reads`; development and tests hide the others. */
  readonly context: Pick<CallContext, Reads>
  /**
   * What vary() of this plugin returned for the call. A plugin that `shares` passes on the text of `services.vary()` that it
   * shares by; each plugin below gets its own part.
   */
  readonly variant?: string | undefined
}

/**
 * The context of a caller's call as long as no plugin has added a value of its own. Of one shape, so that a copy takes 0.1 us where one whose members
 * are gone through takes 0.25: each call has three.
 */
class GatewayContext implements Optional<GatewayKeys> {
  readonly request: Request | undefined
  readonly key: Key | undefined
  readonly account: Account | undefined
  readonly target: Target | undefined
  readonly upstreams: readonly Target[] | undefined

  constructor({ request, key, account, target, upstreams }: Optional<GatewayKeys>) {
    this.request = request
    this.key = key
    this.account = account
    this.target = target
    this.upstreams = upstreams
  }
}

type GatewayKeys = Pick<CallContext, 'request' | 'key' | 'account' | 'target' | 'upstreams'>
type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined }

/** Of a call that no plugin has got yet. */
export const emptyContext: Pick<CallContext, never> = new GatewayContext({})

/** The context with these values added, or in place of those of the same names. */
const addToContext = (context: object, added: object): object => {
  if (!(context instanceof GatewayContext)) return merge(context, added)
  const values: Optional<GatewayKeys> = added
  let { request, key, account, target, upstreams } = context
  for (const name in values) {
    switch (name) {
      case 'request':
        request = values.request
        break
      case 'key':
        key = values.key
        break
      case 'account':
        account = values.account
        break
      case 'target':
        target = values.target
        break
      case 'upstreams':
        upstreams = values.upstreams
        break
      default:
        return merge(context, added)
    }
  }
  return new GatewayContext({ request, key, account, target, upstreams })
}

const merge = (...contexts: readonly object[]): object => {
  const merged: Record<string, unknown> = {}
  for (const context of contexts as readonly Readonly<Record<string, unknown>>[]) // objects with members of any name
    for (const name in context) if (context[name] !== undefined) merged[name] = context[name]
  return merged
}

/**
 * A copy of the call with further context, and perhaps another signal.
 *
 * Written out, as calls come from many places: to spread the call takes 350 ns where this takes 70.
 */
export const withContext = <Reads extends ContextKey, Writes extends ContextKey>(
  { message, origin, signal: ownSignal, startedAtMs, context }: Call<Reads>,
  added: Pick<CallContext, Writes>,
  signal: Signal | undefined = ownSignal,
): Call<Reads | Writes> =>
  // A union of two Picks of the same interface is the Pick of both; TypeScript does not see that by itself.
  ({ message, origin, signal, startedAtMs, context: addToContext(context, added) as Pick<CallContext, Reads | Writes> })

/** Cancels work that nobody waits for any more: an AbortSignal, or the part of one that is needed here. */
export interface Signal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * Cancels work, as an AbortController does: its `signal` is for the calls that are passed on. Listeners are called once, in no defined order.
 *
 * An AbortController with a listener takes 3 us, each call that reaches a node has several, and few are ever aborted.
 */
export class Cancellation implements Signal {
  aborted = false
  /** Most cancellations have one listener at most. */
  #firstListener: (() => void) | undefined
  #otherListeners: Set<() => void> | undefined

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const listeners = [this.#firstListener, ...(this.#otherListeners ?? [])]
    this.#firstListener = undefined
    this.#otherListeners = undefined
    for (const listener of listeners) if (listener !== undefined) void callListener(listener)
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#firstListener === undefined) this.#firstListener = listener
    else (this.#otherListeners ??= new Set()).add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#firstListener === listener) this.#firstListener = undefined
    else this.#otherListeners?.delete(listener)
  }
}

/** A listener that throws keeps neither the others nor the code that aborts from running: what it throws becomes a rejection that nobody handles. */
const callListener = async (listener: () => void): Promise<void> => listener()

/** Calls the listener when the signal aborts: at once when it already has. Returns how to stop listening. */
export const onAbort = (signal: Signal, listener: () => void): (() => void) => {
  if (signal.aborted) {
    listener()
    return () => undefined
  }
  signal.addEventListener('abort', listener)
  return () => signal.removeEventListener('abort', listener)
}

const abortSignals = new WeakMap<Signal, AbortSignal>()

/** An AbortSignal, for `fetch` and other libraries that need one; the same one each time, as the signal of a WebSocket lasts for many calls. */
export const toAbortSignal = (signal: Signal): AbortSignal =>
  signal instanceof AbortSignal ? signal : getOrCreate(abortSignals, signal, createAbortSignal)

const createAbortSignal = (signal: Signal): AbortSignal => {
  const controller = new AbortController()
  // Each call in flight may listen.
  setMaxListeners(Infinity, controller.signal)
  onAbort(signal, () => controller.abort())
  return controller.signal
}
