import { createKey, keyRefusal, rotateKey } from '../../services/accounts/create-key.ts'
import type { KeyChange, KeyRow } from '../../store/store.ts'
import { isSubnet } from '../../util/address-set.ts'
import { dayMs, hourMs, isoTime } from '../../util/dates.ts'
import { didYouMean } from '../../util/did-you-mean.ts'
import { ApiError, invalidField, notFound } from '../api-error.ts'
import type { Person } from '../people.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

/** How far back a key's last use is looked for. */
const lastUseHours = 168

const maxActiveKeys = 100

const maxOverlapHours = 720

const maxNameChars = 64

const name = {
  type: 'string',
  pattern: `^\\S(.{0,${maxNameChars - 2}}\\S)?$`,
  label: `1 to ${maxNameChars} characters, without spaces at the ends`,
  description: 'What people call the key.',
} as const

const days = { type: 'integer', minimum: 1, maximum: 3_650, description: 'After so many days the key expires; without it, never.' } as const

const listOf = (description: string) => ({ type: 'array', items: { type: 'string' }, description }) as const

const allowlists = {
  networks: listOf('The networks that the key may call; every network without it, or when it is empty.'),
  methods: listOf('The methods that the key may call; every method without it, or when it is empty.'),
  origins: listOf('The web pages that may use the key, such as https://dapp.example; every page without it, or when it is empty.'),
  ips: listOf('The IP addresses and subnets that may use the key, such as 10.0.0.0/8; every address without it, or when it is empty.'),
} as const

type Allowlists = { readonly [Name in keyof typeof allowlists]?: readonly string[] }

/** The change that the lists ask for, with an empty list as no restriction. Throws ApiError where a list cannot be meant. */
const checkAllowlists = ({ networks, methods, origins, ips }: Allowlists, services: PortalServices): KeyChange => {
  const knownNetworks = services.networks.map(network => network.name)
  const knownMethods = services.networks.flatMap(network => network.methods.map(method => method.name))
  checkKnown('networks', networks, knownNetworks)
  checkKnown('methods', methods, knownMethods)
  const wrongOrigin = origins?.find(origin => !isOrigin(origin))
  if (wrongOrigin !== undefined) throw invalidField('origins', `has "${wrongOrigin}", which is not an origin such as https://dapp.example`)
  const wrongIp = ips?.find(ip => !isSubnet(ip))
  if (wrongIp !== undefined) throw invalidField('ips', `has "${wrongIp}", which is not an IP address or a subnet such as 10.0.0.0/8`)
  return {
    ...(networks !== undefined && { networks: orNull(networks) }),
    ...(methods !== undefined && { methods: orNull(methods) }),
    ...(origins !== undefined && { origins: orNull(origins) }),
    ...(ips !== undefined && { ips: orNull(ips) }),
  }
}

const orNull = (list: readonly string[]): readonly string[] | null => (list.length === 0 ? null : list)

const checkKnown = (field: string, list: readonly string[] | undefined, known: readonly string[]): void => {
  const unknown = list?.find(each => !known.includes(each))
  if (unknown === undefined) return
  const hint = didYouMean(unknown, known)
  throw invalidField(field, `has "${unknown}", which does not exist here${hint === undefined ? '' : `; ${hint}`}`)
}

const isOrigin = (text: string): boolean => {
  const withoutWildcard = text.replace('://*.', '://x.')
  return URL.canParse(withoutWildcard) && new URL(withoutWildcard).origin === withoutWildcard
}

/** A key as the API shows it. */
const toJson = (row: KeyRow, now: number, lastUsed?: number) => {
  const { id, name = '', hint, networks = [], methods = [], origins = [], ips = [], created, expires, suspended, revoked } = row
  return {
    id,
    name,
    hint,
    networks,
    methods,
    origins,
    ips,
    state: keyRefusal(row, now) ?? 'active',
    created: isoTime(created),
    expires: toIsoTime(expires),
    suspended: toIsoTime(suspended),
    revoked: toIsoTime(revoked),
    lastUsed: toIsoTime(lastUsed),
  }
}

const toIsoTime = (time: number | undefined): string | null => (time === undefined ? null : isoTime(time))

/** The last hour in which each key was used. */
const readLastUses = async ({ store, clock }: PortalServices, account: string): Promise<ReadonlyMap<string, number>> => {
  const end = Math.floor(clock.now() / hourMs) + 1
  const counts = await store.usageCounts(account, end - lastUseHours, end)
  return new Map(counts.map(({ key, hour }) => [key, hour * hourMs]))
}

/** The key of the person's own account. */
const findOwnKey = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<KeyRow> => {
  const row = (await store.keys(account)).find(key => key.id === id)
  if (row === undefined) throw notFound('key')
  return row
}

const keySchema = { $ref: '#/components/schemas/Key' }

export const keyRoutes = [
  defineRoute({
    method: 'get',
    path: '/keys',
    summary: 'The keys of the account, revoked ones included. A key itself is never shown again.',
    role: 'viewer',
    response: { type: 'array', items: keySchema },
    async handle({ person }, services) {
      const lastUses = await readLastUses(services, person.account)
      const now = services.clock.now()
      return (await services.store.keys(person.account)).map(row => toJson(row, now, lastUses.get(row.id)))
    },
  }),
  defineRoute({
    method: 'post',
    path: '/keys',
    summary: 'Creates a key. The response is the only place where the key itself is shown.',
    role: 'developer',
    body: { type: 'object', properties: { name, ...allowlists, days }, required: ['name'] },
    status: 201,
    response: { $ref: '#/components/schemas/NewKey' },
    async handle({ person, body: { name: keyName, days: lifetimeDays, ...lists } }, services) {
      const { store, clock } = services
      await checkActiveKeys(services, person)
      const expires = lifetimeDays === undefined ? undefined : clock.now() + lifetimeDays * dayMs
      const settings = { ...checkAllowlists(lists, services), name: keyName, ...(expires !== undefined && { expires }) }
      const { row, key } = await createKey(store, clock, person.account, settings)
      logChange(services, person, 'created', row)
      return { ...toJson(row, clock.now()), key: key.reveal() }
    },
  }),
  defineRoute({
    method: 'patch',
    path: '/keys/{id}',
    summary: 'Changes the name or the lists of a key.',
    role: 'developer',
    body: { type: 'object', properties: { name, ...allowlists } },
    response: keySchema,
    handle: ({ person, params: { id }, body: { name: keyName, ...lists } }, services) =>
      changeOwnKey(services, person, id, { ...checkAllowlists(lists, services), ...(keyName !== undefined && { name: keyName }) }),
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/rotate',
    summary: 'Creates a key with the same name and lists. The old key is accepted for the overlap, then it expires.',
    role: 'developer',
    body: {
      type: 'object',
      properties: {
        overlapHours: {
          type: 'integer',
          minimum: 1,
          maximum: maxOverlapHours,
          default: 24,
          description: 'How long both keys are accepted.',
        },
      },
    },
    status: 201,
    response: { $ref: '#/components/schemas/NewKey' },
    async handle({ person, params: { id }, body: { overlapHours } }, services) {
      const { store, clock } = services
      const rotated = await findOwnKey(services, person, id)
      const refusal = keyRefusal(rotated, clock.now())
      if (refusal !== undefined) throw new ApiError(409, 'not-active', `the key is ${refusal}`)
      await checkActiveKeys(services, person)
      const { row, key } = await rotateKey(store, clock, rotated, overlapHours * hourMs)
      logChange(services, person, 'created', row)
      return { ...toJson(row, clock.now()), key: key.reveal() }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/suspend',
    summary: 'Suspends a key: within 1 s its calls are refused, until it is resumed.',
    role: 'developer',
    response: keySchema,
    handle: ({ person, params: { id } }, services) => changeOwnKey(services, person, id, { suspended: services.clock.now() }),
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/resume',
    summary: 'Resumes a suspended key.',
    role: 'developer',
    response: keySchema,
    handle: ({ person, params: { id } }, services) => changeOwnKey(services, person, id, { suspended: null }),
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/revoke',
    summary: 'Revokes a key for good: within 1 s its calls are refused.',
    role: 'developer',
    response: keySchema,
    async handle({ person, params: { id } }, services) {
      const { id: keyId } = await findOwnKey(services, person, id)
      const row = (await services.store.revokeKey(keyId, services.clock.now())) ?? throwNotFound()
      logChange(services, person, 'revoked', row)
      return toJson(row, services.clock.now())
    },
  }),
]

const changeOwnKey = async (services: PortalServices, person: Person, id: string | undefined, change: KeyChange) => {
  const { id: keyId } = await findOwnKey(services, person, id)
  const row = (await services.store.changeKey(keyId, change)) ?? throwNotFound()
  logChange(services, person, 'changed', row)
  return toJson(row, services.clock.now())
}

const throwNotFound = (): never => {
  throw notFound('key')
}

const checkActiveKeys = async ({ store, clock }: PortalServices, { account }: Person): Promise<void> => {
  const active = (await store.keys(account)).filter(row => keyRefusal(row, clock.now()) === undefined)
  if (active.length >= maxActiveKeys) throw new ApiError(409, 'too-many', `an account has at most ${maxActiveKeys} active keys: revoke one`)
}

const changeEvents = {
  created: { event: 'key-created' },
  changed: { event: 'key-changed' },
  revoked: { event: 'key-revoked' },
} as const

const logChange = ({ log }: PortalServices, { id, account }: Person, change: keyof typeof changeEvents, { id: key }: KeyRow): void =>
  log.info({ ...changeEvents[change], account, key, person: id }, `API key ${change} in the dashboard`)
