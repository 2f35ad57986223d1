import type { Clock } from '../services/clock.ts'
import { AttemptLimit } from '../util/attempt-limit.ts'
import type { AttemptLimitOptions } from '../util/attempt-limit.ts'
import { dayMs, hourMs } from '../util/dates.ts'
import { tooManyAttempts } from './api-errors.ts'
import { toMailbox } from './mail/mailbox.ts'

interface PortalLimit extends Pick<AttemptLimit, 'record'> {
  /** Has `who` made as many attempts as are allowed? */
  isReached(who: string): boolean
  /** Throws ApiError, 429, when they have. */
  check(who: string): void
  /** Checks, and counts this attempt. */
  attempt(who: string): void
  /** Checks, and counts the attempt where nothing is found. */
  attemptToFind<T>(who: string, find: () => Promise<T | undefined>): Promise<T | undefined>
}

export interface PortalLimits {
  /** By the caller's network, as the next three. */
  readonly failedSignIns: PortalLimit
  readonly failedTokens: PortalLimit
  readonly linkRequests: PortalLimit
  readonly providerSignIns: PortalLimit
  /** Mails with links to one mailbox. */
  readonly links: PortalLimit
  /** All mails in a day to addresses without a person, of which each sign-up that is allowed in a day may have so many. */
  readonly signUpMails: SignUpMails
  /** By account: all that is created or changed, as it stays in the store, or in the log of changes. By person: what viewers may create. */
  readonly changes: PortalLimit
  /** By person, so that nobody keeps others from revoking a key: what takes something away. */
  readonly removals: PortalLimit
  /** By account: mails that invite, or ask addresses to confirm. Owners choose whom they go to. */
  readonly peopleMails: PortalLimit
  /** By account: messages that try a webhook. */
  readonly webhookTests: PortalLimit
  /** By account: names for it, of which one may say that another account has it. */
  readonly accountNames: PortalLimit
}

/** Anyone can have mails sent to strangers, from any number of networks: what all of them together may cause. */
class SignUpMails {
  readonly #clock: Clock
  #count = 0
  #endsAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts one more mail, which may be sent unless too many were; `last` is the one after which none may. */
  record(signUpsPerDay: number): 'sent' | 'last' | 'refused' {
    const now = this.#clock.monotonic()
    if (now >= this.#endsAt) {
      this.#count = 0
      this.#endsAt = now + dayMs
    }
    const max = Math.max(minSignUpMails, mailsPerSignUp * signUpsPerDay)
    if (this.#count >= max) return 'refused'
    this.#count += 1
    return this.#count >= max ? 'last' : 'sent'
  }
}

const mailsPerSignUp = 10
const minSignUpMails = 100

export const openPortalLimits = (clock: Clock): PortalLimits => {
  const open = (label: string, options: AttemptLimitOptions, toKey = (who: string) => who): PortalLimit => {
    const attempts = new AttemptLimit(clock, options)
    const limit: PortalLimit = {
      isReached: who => attempts.retryAfter(toKey(who)) !== undefined,
      check(who) {
        const retryAfter = attempts.retryAfter(toKey(who))
        if (retryAfter !== undefined) throw tooManyAttempts(label, retryAfter)
      },
      record: who => attempts.record(toKey(who)),
      attempt(who) {
        limit.check(who)
        limit.record(who)
      },
      async attemptToFind(who, find) {
        limit.check(who)
        const found = await find()
        if (found === undefined) limit.record(who)
        return found
      },
    }
    return limit
  }
  return {
    failedSignIns: open('failed sign-ins', { max: 10, windowMs: 60_000 }),
    failedTokens: open('requests with an unknown token', { max: 10, windowMs: 60_000 }),
    linkRequests: open('requests for sign-in links', { max: 20, windowMs: hourMs }),
    providerSignIns: open('sign-ins', { max: 60, windowMs: 60_000 }),
    links: open('mails to this address', { max: 5, windowMs: hourMs }, toMailbox),
    signUpMails: new SignUpMails(clock),
    changes: open('changes in one hour', { max: 200, windowMs: hourMs }),
    removals: open('removals in one hour', { max: 1_000, windowMs: hourMs }),
    peopleMails: open('mails to people in one hour', { max: 20, windowMs: hourMs }),
    accountNames: open('names of accounts in one hour', { max: 20, windowMs: hourMs }),
    webhookTests: open('test messages in one hour', { max: 20, windowMs: hourMs }),
  }
}
