import { directStage } from '../src/plugin/internal.ts'
import type { DirectNext, MaybePromise, Lookup } from '../src/plugin/internal.ts'
import { definePlugin, refuse, withContext } from '../src/plugin/plugin.ts'
import type { Call, Failure, Origin, Reply } from '../src/plugin/plugin.ts'

/** The look-up of the key; `missing` when the request has none. */
type KeyLookup = Lookup | { readonly kind: 'missing' }

declare module '../src/plugin/call.ts' {
  interface OriginState {
    /** The look-up of the key of an HTTP request, and its time in monotonic ms. */
    'key-auth'?: { readonly lookup: KeyLookup | Promise<KeyLookup>; readonly at: number }
  }
}

/**
 * How long the look-up of admit() serves the calls of the same HTTP request, in ms. A revoked key is refused within 1 s: the
 * look-up itself may be 500 ms behind the store.
 */
const maxLookupAgeMs = 400

/** Contract 5.1: the API key says which account is billed. */
export default definePlugin({
  name: 'key-auth',
  summary:
    'Finds the account of the API key, or of the token (JWT), in the path or in a header; refuses missing, malformed, unknown, revoked, suspended and expired keys, those of suspended accounts, and tokens that are not valid.',
  options: { type: 'object', properties: {} },
  writes: ['key', 'account'],
  create(_options, { accounts, clock }) {
    /** A WebSocket may stay open for days: its key is looked up for each message. */
    const lookUp = ({ key, transport, state }: Origin, nowMs: number): KeyLookup | Promise<KeyLookup> => {
      if (key === undefined) return { kind: 'missing' }
      if (transport === 'websocket') return accounts.find(key)
      const latest = state['key-auth']
      if (latest !== undefined && nowMs - latest.at < maxLookupAgeMs) return latest.lookup
      const lookup = accounts.find(key)
      state['key-auth'] = { lookup, at: nowMs }
      return lookup
    }

    const admitLookup = (lookup: KeyLookup, { state }: Origin): Failure | undefined => {
      if (lookup.kind !== 'granted') return refusalByLookup[lookup.kind]
      state.accountId = lookup.account.id
      return undefined
    }

    return directStage({
      admit(origin) {
        const lookup = lookUp(origin, clock.monotonic())
        return lookup instanceof Promise ? lookup.then(found => admitLookup(found, origin)) : admitLookup(lookup, origin)
      },
      handle(call, next) {
        const lookup = lookUp(call.origin, call.startedAtMs)
        // A cached key is found at once: to await it would take a microsecond of each call.
        return lookup instanceof Promise ? serveLater(lookup, call, next) : serve(lookup, call, next)
      },
      explain({ lookup }) {
        if (lookup === undefined) return { text: ['requires an API key in the path, /v3/<API_KEY>, or in a header'] }
        if (lookup.kind !== 'granted') return { text: [refusalByLookup[lookup.kind].error.message], ends: 'refused' }
        const { key, account } = lookup
        return { text: [`the key ${key.id} is valid: account ${account.name}, plan ${account.plan.name}`] }
      },
    })
  },
})

type NextWithKey = DirectNext<'key' | 'account'>

const serve = (lookup: KeyLookup, call: Call, next: NextWithKey): MaybePromise<Reply> =>
  lookup.kind === 'granted' ? next(withContext(call, { key: lookup.key, account: lookup.account })) : refusalByLookup[lookup.kind]

const serveLater = async (lookup: Promise<KeyLookup>, call: Call, next: NextWithKey): Promise<Reply> => serve(await lookup, call, next)

const refusalByLookup: Readonly<Record<Exclude<KeyLookup['kind'], 'granted'>, Failure>> = {
  missing: refuse('key', {
    message:
      'the API key is missing: put it in the path, /v3/<API_KEY> or /ws/v3/<API_KEY>, or in a header, Authorization: Bearer <API_KEY>; a query is not read',
  }),
  malformed: refuse('key', {
    message: 'the API key is malformed: characters are wrong or missing; a key is tg_ and 38 letters and digits',
  }),
  unknown: refuse('key', { message: 'the API key is unknown' }),
  revoked: refuse('key', { message: 'the API key has been revoked' }),
  suspended: refuse('key', { message: 'the API key is suspended' }),
  accountSuspended: refuse('key', { message: 'the account of this API key is suspended' }),
  expired: refuse('key', { message: 'the API key has expired' }),
  tokenInvalid: refuse('key', { message: 'the token is not valid: it has expired, or it is not accepted here' }),
  planNotFound: refuse('key', { message: 'the plan of this account no longer exists' }),
  storeUnavailable: refuse('unavailable', {
    message: 'API keys cannot be verified now',
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 2,
  }),
  tokenUnverifiable: refuse('unavailable', {
    message: 'tokens cannot be verified now',
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 2,
  }),
}
