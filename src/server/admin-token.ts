import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type Koa from 'koa'
import type { Secret } from '../plugin/secret.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { networkOf } from '../util/address-set.ts'
import { AttemptLimit } from '../util/attempt-limit.ts'
import { isJwt } from '../util/key-mask.ts'
import { bearerTextOf, bearerTokenOf } from './bearer-token.ts'
import type { ReadBearer } from './bearer-token.ts'
import type { ReadClientAddress } from './client-address.ts'

interface AdminTokenOptions {
  /** Of nobody by name; commands use it. */
  readonly token: Secret
  /** Of single operators, by their names. */
  readonly tokens?: Readonly<Record<string, Secret>> | undefined
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Log
  readonly readClientAddress: ReadClientAddress
}

/** Who has a token. */
export interface TokenHolder {
  /** Undefined: whoever has `admin.token`. */
  readonly name: string | undefined
  /** Of the name and the token: another token is another holder. */
  readonly id: string
}

export type TokenCheck =
  | { readonly isValid: true; readonly holder: TokenHolder }
  | { readonly isValid: false }
  | { readonly retryAfter: number }

/** Wrong tokens from one IPv4 address or one /64 of IPv6. */
const guessLimit = { max: 5, windowMs: 60_000 }

/** The tokens of operators. Guesses are limited: after too many from one network, the right token is refused there too. */
export class AdminToken {
  readonly #options: AdminTokenOptions
  readonly #guesses: AttemptLimit
  readonly #tokens: readonly { readonly digest: Buffer; readonly holder: TokenHolder }[]
  readonly #readBearer: ReadBearer

  constructor(options: AdminTokenOptions) {
    this.#options = options
    this.#guesses = new AttemptLimit(options.clock, guessLimit)
    const named = Object.entries(options.tokens ?? {})
    this.#tokens = [
      { digest: digest(options.token.reveal()), holder: { name: undefined, id: operatorId } },
      ...named.map(([name, token]) => ({ digest: digest(token.reveal()), holder: { name, id: idOf(name, token) } })),
    ]
    // Where the operator has chosen a JWT, each could be the token.
    this.#readBearer = [options.token, ...named.map(([, token]) => token)].some(token => isJwt(token.reveal()))
      ? bearerTextOf
      : bearerTokenOf
  }

  /** Whose token is this? `retryAfter`, in seconds, when too many guesses came from the network of the request. */
  check(request: IncomingMessage, token: string): TokenCheck {
    const address = this.#options.readClientAddress(request)
    const retryAfter = this.#guesses.retryAfter(networkOf(address))
    if (retryAfter !== undefined) return { retryAfter }
    const given = digest(token)
    // All of them, so that the time says nothing.
    const [found] = this.#tokens.filter(each => timingSafeEqual(given, each.digest))
    if (found !== undefined) return { isValid: true, holder: found.holder }
    this.#guesses.record(networkOf(address))
    this.#options.log.warn({ event: 'admin-token-refused', address }, 'admin token refused: a request had another one')
    return { isValid: false }
  }

  /** By its id; undefined where the token was changed, or removed. */
  holder(id: string): TokenHolder | undefined {
    return this.#tokens.find(each => each.holder.id === id)?.holder
  }

  /** As check(), of the token in the Authorization header; undefined without one. */
  checkAuthorization(request: IncomingMessage): TokenCheck | undefined {
    const token = this.#readBearer(request)
    return token === undefined ? undefined : this.check(request, token)
  }

  /** A key that nobody can derive without the token. */
  deriveKey(purpose: string): string {
    return createHmac('sha256', this.#options.token.reveal()).update(purpose).digest('base64url')
  }
}

/** Who a session of the admin listener is for. The ids of people begin with usr_. */
const operatorId = 'operator'

const idOf = (name: string, token: Secret): string =>
  `${operatorId} ${name} ${createHmac('sha256', token.reveal()).update('session').digest('base64url')}`

/** Texts of any length as bytes of one length, for a comparison in constant time. */
const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Lets requests with the token pass. */
export const requireToken =
  (token: AdminToken): Koa.Middleware =>
  (ctx, next) => {
    const check = token.checkAuthorization(ctx.req) ?? { isValid: false as const }
    if ('isValid' in check && check.isValid) return next()
    if ('retryAfter' in check) {
      ctx.set('Retry-After', String(check.retryAfter))
      ctx.status = 429
      ctx.body = { error: 'too many wrong tokens from this address; retry later' }
    } else {
      ctx.set('WWW-Authenticate', 'Bearer')
      ctx.status = 401
      ctx.body = { error: 'send the token of `admin.token` as Authorization: Bearer TOKEN' }
    }
    return undefined
  }
