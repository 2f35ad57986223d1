import { isDeepStrictEqual } from 'node:util'
import { keyRefusal } from '../../services/accounts/api-key.ts'
import type { KeyChange, KeyRow } from '../../store/store.ts'
import { dayMs, hourMs } from '../../util/dates.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { keyUseJson, readLastUses } from '../key-use.ts'
import { listOf, schemaRef } from '../response-schemas.ts'
import type { Person } from '../people/people.ts'
import { accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'
import { checkKnown, checkResumable, keyJson, keySettings, newKeySettings, toKeyChange } from '../key-settings.ts'
import type { KeySettings } from '../key-settings.ts'

/** Neither revoked nor expired: a suspended key counts, as it can be resumed. */
const maxKeys = 100

const maxOverlapHours = 720

/** A key as its account sees it, with its use. */
const toJson = async (services: PortalServices, row: KeyRow, lastUsed?: number) => ({
  ...keyJson(row, services.clock.now()),
  ...(await keyUseJson(services, row, lastUsed)),
})

export type OwnKeyJson = Awaited<ReturnType<typeof toJson>>

/** The response is the only place where the key itself is shown. */
interface NewKeyJson extends OwnKeyJson {
  readonly key: string
}

/** The key of the person's own account. */
const findOwnKey = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<KeyRow> => {
  const row = (await store.keys(account)).find(key => key.id === id)
  if (row === undefined) throw notFound('key')
  return row
}

const keySchema = schemaRef('Key')

export const keyRoutes = [
  defineRoute({
    method: 'get',
    path: '/keys',
    summary: 'The keys of the account, revoked ones included. A key itself is never shown again.',
    role: 'viewer',
    response: listOf(keySchema),
    async handle({ person }, services) {
      const lastUses = await readLastUses(services, person.account)
      const rows = await services.store.keys(person.account)
      return Promise.all(rows.map(row => toJson(services, row, lastUses.get(row.id))))
    },
  }),
  defineRoute({
    method: 'post',
    path: '/keys',
    summary: 'Creates a key. The response is the only place where the key itself is shown.',
    role: 'developer',
    body: { type: 'object', properties: newKeySettings, required: ['name'] },
    status: 201,
    response: schemaRef('NewKey'),
    async handle({ person, body: { days, ...settings } }, services): Promise<NewKeyJson> {
      const { clock } = services
      const expires = days === undefined ? undefined : clock.now() + days * dayMs
      const change = { ...toOwnChange(settings, services), ...(expires !== undefined && { expires }) }
      const { row, key } = await addWithinLimit(services, person, () => accountsAs(services, person).createKey(person.account, change))
      logChange(services, person, 'created', row)
      return { ...(await toJson(services, row)), key: key.reveal() }
    },
  }),
  defineRoute({
    method: 'patch',
    path: '/keys/{id}',
    summary: 'Changes the name, the lists or the limits of a key.',
    role: 'developer',
    body: { type: 'object', properties: keySettings },
    response: keySchema,
    handle: ({ person, params: { id }, body }, services) => changeOwnKey(services, person, id, toOwnChange(body, services)),
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/rotate',
    summary: 'Creates a key with the same name, lists and limits. The old key is accepted for the overlap, then it expires.',
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
    response: schemaRef('NewKey'),
    async handle({ person, params: { id }, body: { overlapHours } }, services): Promise<NewKeyJson> {
      const { clock } = services
      const rotated = await findOwnKey(services, person, id)
      const refusal = keyRefusal(rotated, clock.now())
      if (refusal !== undefined) throw new ApiError(409, 'not-active', `the key is ${refusal}`)
      const { row, key } = await addWithinLimit(services, person, () =>
        accountsAs(services, person).rotateKey(rotated, overlapHours * hourMs),
      )
      logChange(services, person, 'created', row)
      return { ...(await toJson(services, row)), key: key.reveal() }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/suspend',
    summary: 'Suspends a key: within 1 s its calls are refused, until it is resumed.',
    role: 'developer',
    isRemoval: true,
    response: keySchema,
    handle: ({ person, params: { id } }, services) => changeOwnKey(services, person, id, { suspended: services.clock.now() }),
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/resume',
    summary: 'Resumes a suspended key.',
    role: 'developer',
    response: keySchema,
    async handle({ person, params: { id } }, services) {
      checkResumable(await findOwnKey(services, person, id))
      return changeOwnKey(services, person, id, { suspended: null })
    },
  }),
  defineRoute({
    method: 'post',
    path: '/keys/{id}/revoke',
    summary: 'Revokes a key for good: within 1 s its calls are refused.',
    role: 'developer',
    isRemoval: true,
    response: keySchema,
    async handle({ person, params: { id } }, services) {
      const known = await findOwnKey(services, person, id)
      const row = (await accountsAs(services, person).revokeKey(known.id)) ?? throwNotFound()
      if (known.revoked === undefined) logChange(services, person, 'revoked', row)
      return toJson(services, row)
    },
  }),
]

/** The change that a person asks for. Throws ApiError. */
const toOwnChange = (settings: KeySettings, { networks }: PortalServices): KeyChange => {
  const change = toKeyChange(
    settings,
    networks.map(network => network.name),
  )
  checkKnown(
    'method',
    settings.methods,
    networks.flatMap(network => network.methods.map(method => method.name)),
  )
  return change
}

const changeOwnKey = async (services: PortalServices, person: Person, id: string | undefined, change: KeyChange) => {
  const known = await findOwnKey(services, person, id)
  const row = (await accountsAs(services, person).changeKey(known.id, change)) ?? throwNotFound()
  if (!isDeepStrictEqual(row, known)) logChange(services, person, 'changed', row)
  return toJson(services, row)
}

const throwNotFound = (): never => {
  throw notFound('key')
}

/** Adds a key. Rejects with ApiError when the account has as many as it may. */
const addWithinLimit = <T>(services: PortalServices, { account }: Person, add: () => Promise<T>): Promise<T> =>
  oneAtATime(services, `keys ${account}`, async () => {
    const { store, clock } = services
    const now = clock.now()
    const counted = (await store.keys(account)).filter(({ revoked, expires = Infinity }) => revoked === undefined && expires > now)
    if (counted.length >= maxKeys)
      throw new ApiError(409, 'too-many', `an account has at most ${maxKeys} keys that are active or suspended: revoke one`)
    return add()
  })

const changeEvents = {
  created: { event: 'key-created' },
  changed: { event: 'key-changed' },
  revoked: { event: 'key-revoked' },
} as const

const logChange = ({ log }: PortalServices, { id, account }: Person, change: keyof typeof changeEvents, { id: key }: KeyRow): void =>
  log.info({ ...changeEvents[change], account, key, person: id }, `API key ${change} in the dashboard`)
