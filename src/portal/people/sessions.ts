import type Koa from 'koa'
import { createSession } from 'koa-session'
import type { Clock } from '../../services/clock.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import type { Json } from '../../util/json.ts'
import { browserName } from './browser-name.ts'
import type { Person } from './people.ts'
import { generateToken, hashToken } from './random-tokens.ts'
import type { SignInSecret } from '../route.ts'

/** A session ends after this time without a request. */
const idleTimeoutMs = 1_800_000

/** koa-session keeps a session in the store for so much longer. */
const storeMarginMs = 10_000

/** A session ends at this age, in use or not. */
const maxAgeMs = 43_200_000

/** What a session remembers. */
interface SessionData {
  /** Id of the person. */
  readonly person: string
  readonly account: string
  /** Milliseconds since 1970. */
  readonly signedIn: number
  /** What signed in, in words. */
  readonly browser: string
  /** From where, as networkOf() has it. */
  readonly network?: string
}

/** Somebody who signs in. */
interface SigningIn extends Pick<Person, 'id' | 'account'> {
  readonly network?: string
}

export interface SessionOptions {
  readonly store: Pick<RecordStore, 'findRecord' | 'putRecord' | 'replaceRecord' | 'takeRecord'>
  readonly clock: Clock
  readonly cookieName: string
  /** `strict`: links from other sites open the page signed out. */
  readonly sameSite: 'lax' | 'strict'
  /** Browsers use https: the cookie is sent over https alone. */
  readonly secure: boolean
  /** Sign cookies: the first signs, all are accepted. Read with the first request. */
  readSigningKey(): string | Promise<string>
}

export const isHttps = (url: string): boolean => url.startsWith('https:')

/** The prefix makes browsers insist on https, this host and no other path. */
export const sessionCookieName = (name: string, secure: boolean): string => (secure ? `__Host-${name}` : name)

/** Sessions in the store, by the hash of their ids. */
export const sessionMiddleware = (
  app: Koa,
  { store, clock, cookieName, sameSite, secure, readSigningKey }: SessionOptions,
): Koa.Middleware => {
  const middleware = createSession(
    {
      key: sessionCookieName(cookieName, secure),
      httpOnly: true,
      sameSite,
      secure,
      signed: true,
      maxAge: idleTimeoutMs,
      renew: true,
      genid: generateToken,
      valid: (_ctx, { signedIn }: SessionData) => clock.now() - signedIn < maxAgeMs,
      store: {
        async get(id, _maxAge, { ctx }: SessionCall) {
          const found = await store.findRecord('session', hashToken(id))
          if (ctx !== undefined) ctx.state[foundMember] = found
          return found?.value
        },
        async set(id, data: Json & SessionData, ttlMs, { ctx }: SessionCall) {
          const [recordId, expires] = [hashToken(id), clock.now() + ttlMs]
          const found = ctx?.state[foundMember] as StoredRecord | undefined // set above alone
          // A session that is renewed may have been ended since, by another request or on another machine.
          if (found?.id === recordId) await store.replaceRecord('session', found, data, expires)
          else await store.putRecord('session', { id: recordId, account: data.account, value: data, expires })
        },
        destroy: async id => void (await store.takeRecord('session', hashToken(id))),
      },
    },
    app,
  )
  return async (ctx, next) => {
    // With the first request: the store may be unreachable when the application is loaded.
    if (app.keys === undefined) app.keys = [await readSigningKey()]
    // A proxy ends TLS: the connection itself is not encrypted.
    if (secure) ctx.cookies.secure = true
    return middleware(ctx, next)
  }
}

/** What koa-session passes to its store. */
interface SessionCall {
  readonly ctx?: Koa.Context
}

/** The record of the session, as a request has found it. */
const foundMember = 'foundSession'

/** The session of a request; undefined where nobody is signed in. */
export const sessionOf = (ctx: Koa.Context): Pick<SessionData, 'person' | 'account' | 'signedIn'> | undefined => {
  const { person, account, signedIn } = (ctx['session'] ?? {}) as Partial<SessionData> // set by signIn() alone
  return person === undefined || account === undefined || signedIn === undefined ? undefined : { person, account, signedIn }
}

/** For a request that lasts: has its session been ended since, by another request or on another machine? */
export const hasEnded = async (ctx: Koa.Context, store: RecordStore): Promise<boolean> => {
  if (sessionOf(ctx) === undefined) return false
  return (await store.findRecord('session', sessionIdOf(ctx))) === undefined
}

/** By which sessions are listed: the hash of what the cookie has. */
export const sessionIdOf = (ctx: Koa.Context): string => {
  // koa-session declares no type of its session; externalKey is documented.
  const { externalKey = '' } = (ctx['session'] ?? {}) as { readonly externalKey?: string }
  return hashToken(externalKey)
}

/** Starts a session under a new id: an id that an attacker has planted is worth nothing. */
export const signIn = async (ctx: Koa.Context, { id: person, account, network }: SigningIn, clock: Clock): Promise<void> => {
  const browser = browserName(ctx.get('User-Agent'))
  const data: SessionData = { person, account, signedIn: clock.now(), browser, ...(network !== undefined && { network }) }
  ctx['session'] = data
  // koa-session declares no type of its session; regenerate() is documented.
  await (ctx['session'] as { regenerate(): Promise<void> }).regenerate()
}

export const signOut = (ctx: Koa.Context): void => {
  ctx['session'] = null
}

/** In a cookie of its own: the session begins when the sign-in has succeeded. */
export const signInSecretOf = (ctx: Koa.Context, secure: boolean): SignInSecret => {
  const name = sessionCookieName('tollgate-sign-in', secure)
  const options = { httpOnly: true, sameSite: 'lax', secure, signed: false } as const
  return {
    get: () => ctx.cookies.get(name, { signed: false }),
    set: (secret, ttlMs) => void ctx.cookies.set(name, secret, { ...options, maxAge: ttlMs }),
    clear: () => void ctx.cookies.set(name, null, options),
  }
}

/** A session of a person, as they see it. */
export interface ListedSession {
  readonly id: string
  readonly browser: string
  /** Undefined where it is not known. */
  readonly network: string | undefined
  /** Milliseconds since 1970. */
  readonly signedIn: number
  /** When it was last renewed: requests within a quarter of an hour renew it once. */
  readonly lastSeen: number
}

/** The newest first. */
export const listSessions = async (store: RecordStore, person: Pick<Person, 'id' | 'account'>): Promise<readonly ListedSession[]> =>
  (await sessionRecords(store, person))
    .map(({ id, value, expires }) => {
      const { browser, network, signedIn } = value as unknown as SessionData // written by signIn()
      return { id, browser, network, signedIn, lastSeen: Math.max(signedIn, expires - idleTimeoutMs - storeMarginMs) }
    })
    .sort((a, b) => b.signedIn - a.signedIn)

const sessionRecords = async (store: RecordStore, { id, account }: Pick<Person, 'id' | 'account'>): Promise<readonly StoredRecord[]> =>
  (await store.records('session', account)).filter(({ value }) => {
    const { person } = Object(value) as Partial<SessionData>
    return person === id
  })

/** Ends all sessions of a person, on all machines. */
export const signOutEverywhere = async (store: RecordStore, person: Pick<Person, 'id' | 'account'>): Promise<void> => {
  for (const record of await sessionRecords(store, person)) await store.takeRecord('session', record.id)
}
