import type { Clock } from '../services/clock.ts'
import type { RecordStore } from '../store/record-store.ts'
import { siteOf } from '../util/address-set.ts'
import { dayMs, isoDate } from '../util/dates.ts'
import { isJsonObject } from '../util/json.ts'
import { oneAtATime } from './concurrent-changes.ts'
import { publicMailDomains, registeredDomainOf } from './mailbox.ts'
import { generateToken } from './random-tokens.ts'

/** Who makes an account. */
interface NewcomerOrigin {
  readonly email: string
  /** The network of the browser. */
  readonly network: string
  /** Whether the operator has named the domain as one that may sign up. */
  readonly isNamedDomain: boolean
}

/** Of the accounts of a day, what one domain and one network may make at most: the others are for everybody else. */
const maxShare = 0.1
const minSharedSlots = 5

/**
 * Takes one of the `perDay` accounts of this UTC day; false when the day is full, or full for this domain or this network. Those that
 * are taken at the same time, on several gateways too, are counted one after the other.
 */
export const takeSignUpSlot = async (
  services: { readonly store: RecordStore; readonly clock: Clock },
  perDay: number,
  { email, network, isNamedDomain }: NewcomerOrigin,
): Promise<boolean> => {
  const { store, clock } = services
  const day = isoDate(clock.now())
  const domain = registeredDomainOf(email)
  const limits: readonly (readonly [member: string, value: string])[] = [
    ['site', siteOf(network)],
    ...(isNamedDomain || publicMailDomains.has(domain) ? [] : [['domain', domain] as const]),
  ]
  return oneAtATime(services, `signed-up ${day}`, async () => {
    const taken = (await store.records('signed-up', day)).map(({ value }) => value)
    const slotsOf = (member: string, value: string): number => taken.filter(slot => isJsonObject(slot) && slot[member] === value).length
    const maxShared = Math.max(minSharedSlots, Math.ceil(perDay * maxShare))
    if (taken.length >= perDay || limits.some(([member, value]) => slotsOf(member, value) >= maxShared)) return false
    const slot = { id: `${day}/${generateToken()}`, account: day, value: Object.fromEntries(limits) }
    return store.addRecord('signed-up', { ...slot, expires: clock.now() + 2 * dayMs })
  })
}
