import { definePlugin, refuse, withNotes } from '../src/plugin.ts'
import type { Failure, Lookup, Origin, Reply } from '../src/plugin.ts'

/** What was found for the key of a path, or that the path has none. */
type Found = Lookup | { readonly kind: 'missing' }

/** Contract 5.1: the API key in the path says which account is billed. */
export default definePlugin({
  name: 'key-auth',
  summary: 'Finds the account of the API key in the path; refuses missing, malformed, unknown and revoked keys.',
  options: { type: 'object', properties: {} },
  writes: ['key', 'account'],
  create(_options, { accounts }) {
    const look = ({ key }: Origin): Found | Promise<Found> => (key === undefined ? { kind: 'missing' } : accounts.find(key))

    return {
      admit(origin) {
        const found = look(origin)
        return found instanceof Promise ? found.then(refusalOf) : refusalOf(found)
      },
      handle(call, next) {
        const pass = (found: Found): Promise<Reply> =>
          found.kind === 'granted'
            ? next(withNotes(call, { key: found.key, account: found.account }))
            : Promise.resolve(refusals[found.kind])
        const found = look(call.origin)
        // A key that was seen lately is found at once; waiting for it all the same would cost each call a microsecond.
        return found instanceof Promise ? found.then(pass) : pass(found)
      },
    }
  },
})

const refusals: Readonly<Record<Exclude<Found['kind'], 'granted'>, Failure>> = {
  missing: refuse('key', { message: 'the API key is missing: the path is /v3/<API_KEY>' }),
  malformed: refuse('key', { message: 'the API key is malformed: it has a typing error or is cut off' }),
  unknown: refuse('key', { message: 'the API key is unknown' }),
  revoked: refuse('key', { message: 'the API key has been revoked' }),
  planless: refuse('key', { message: "the plan of this API key's account is not offered any more" }),
  away: refuse('unavailable', {
    message: 'API keys cannot be checked now',
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 2,
  }),
}

const refusalOf = (found: Found): Failure | undefined => (found.kind === 'granted' ? undefined : refusals[found.kind])
