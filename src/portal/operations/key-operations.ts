import { keyRefusal } from '../../services/accounts/api-key.ts'
import type { CreatedKey } from '../../services/accounts/api-key.ts'
import type { AccountRow, KeyChange, KeyRow } from '../../store/store.ts'
import { isoTimeOrNull } from '../../util/dates.ts'
import { ApiError } from '../api-errors.ts'
import { checkResumable, keyJson, keyProperties, keySettings, noRateKeyword, toKeyChange, toRateChange } from '../key-settings.ts'
import type { KeySettings } from '../key-settings.ts'
import { keyUseJson, keyUseProperties, readLastUses } from '../key-use.ts'
import { accountRefSchema, listOf, object, schemaRef, text, timeOrNull } from '../response-schemas.ts'
import { accountId, findAccount } from './account-operations.ts'
import { defineOperation, tableOr } from './operation.ts'
import type { OperationServices, TextBlock } from './operation.ts'
import { toPositiveDuration } from './positive-duration.ts'

/** In place of a list: no restriction. */
const allKeyword = 'all'

/** In place of a duration: the key does not expire. */
const neverKeyword = 'never'

/** In place of a number of credits or a rate: no limit but that of the account. */
const noLimitKeyword = noRateKeyword

/** What is shown in its place: `none` would read as 0. */
const noLimitText = 'no limit'

const defaultOverlap = '1d'

const id = { type: 'string', description: 'The id of the key, as `keys list` shows it.' } as const

const settings = {
  ...keySettings,
  expires: {
    type: 'string',
    description: `After this time from now the key is refused, such as 30d or 12h; \`${neverKeyword}\`, and without it: it does not expire.`,
  },
  verify: {
    type: 'array',
    items: { type: 'string', enum: ['none', 'proof'] },
    description: `What callers may ask for with the header \`Tollgate-Verify\`; \`${neverKeyword}\`, and without it: nothing.`,
  },
} as const

const flags = {
  networks: { keyword: allKeyword },
  methods: { keyword: allKeyword },
  origins: { keyword: allKeyword },
  ips: { keyword: allKeyword },
  dailyCredits: { name: 'credits', keyword: noLimitKeyword },
  rate: { placeholder: 'RATE', keyword: noLimitKeyword },
  burst: { of: 'rate', expected: 'an integer greater than 0' },
  expires: { placeholder: 'DURATION', keyword: neverKeyword },
  verify: { keyword: neverKeyword },
} as const

const operatorKeyJson = (row: KeyRow, account: Pick<AccountRow, 'id' | 'name'>, now: number) => ({
  ...keyJson(row, now),
  account: { id: account.id, name: account.name },
})

export type OperatorKeyJson = ReturnType<typeof operatorKeyJson>

/** With its use. */
export type ListedKeyJson = OperatorKeyJson & Awaited<ReturnType<typeof keyUseJson>>

const operatorKey = {
  ...keyProperties,
  account: accountRefSchema,
}
const newKey = { ...operatorKey, key: { type: 'string', description: 'The API key. It is not shown again.' } }

/** What the operations return, by the name in the OpenAPI document. */
export const keySchemas = {
  Key: object(operatorKey),
  ListedKey: object({ ...operatorKey, ...keyUseProperties }),
  NewKey: object(newKey),
  RotatedKey: object({
    ...newKey,
    rotated: object({ id: text, expires: { ...timeOrNull, description: 'Until then the rotated key is accepted.' } }),
  }),
} as const

interface SettingsInput extends KeySettings {
  readonly expires?: string
  readonly verify?: readonly ('none' | 'proof')[]
}

const checkSettings = (input: SettingsInput, now: number): void => {
  toRateChange(input)
  toExpiry(input.expires, now)
}

/** Null never expires. Throws ApiError. */
const toExpiry = (expires: string | undefined, now: number): number | null | undefined => {
  if (expires === undefined) return undefined
  return expires === neverKeyword ? null : now + toPositiveDuration('expires', expires, `, or \`${neverKeyword}\``)
}

/** The change that the input asks for. Rejects with ApiError. */
const toSettingsChange = async ({ expires, verify, ...rest }: SettingsInput, services: OperationServices): Promise<KeyChange> => {
  const networks = rest.networks === undefined ? [] : await services.networkNames()
  const expiry = toExpiry(expires, services.clock.now())
  const change = toKeyChange(rest, networks)
  await services.checkMethods(rest.methods ?? [])
  return {
    ...change,
    ...(expiry !== undefined && { expires: expiry }),
    ...(verify !== undefined && { verify: verify.length === 0 ? null : verify }),
  }
}

const unknownKey = (keyId: string): ApiError =>
  new ApiError(404, 'not-found', `unknown key id "${keyId}"; \`keys list ACCOUNT\` shows the ids`)

/** Rejects with ApiError. */
const findKey = async ({ store }: OperationServices, keyId: string) => {
  const found = await store.findKeyById(keyId)
  if (found === undefined) throw unknownKey(keyId)
  return found
}

/** Changes a key, and returns it with its account. Rejects with ApiError. */
const changeKey = async (
  services: OperationServices,
  keyId: string,
  change: (services: OperationServices) => Promise<KeyRow | undefined>,
): Promise<OperatorKeyJson> => {
  const { account } = await findKey(services, keyId)
  const row = await change(services)
  if (row === undefined) throw unknownKey(keyId)
  return operatorKeyJson(row, account, services.clock.now())
}

const onlyId = { type: 'object', properties: { id }, required: ['id'] } as const

/** The command of an operation that changes the state of one key. */
const stateCommand = {
  positionals: { id: 'ID' },
  text: (changed: OperatorKeyJson) => [`key ${changed.id} of account ${changed.account.name}: ${formatState(changed)}`],
} as const

const createdJson = ({ row, key }: CreatedKey, account: AccountRow, now: number) => ({
  ...operatorKeyJson(row, account, now),
  key: key.reveal(),
})

export const keyOperations = [
  defineOperation({
    name: 'keys add',
    method: 'post',
    path: '/accounts/{id}/keys',
    status: 201,
    summary: 'Creates a key. The response is the only place where the key itself is shown.',
    input: { type: 'object', properties: { id: accountId, ...settings }, required: ['id'] },
    output: schemaRef('NewKey'),
    check: checkSettings,
    async run({ id: idOrName, ...input }, services) {
      const account = await findAccount(services, idOrName)
      const created = await services.accounts.createKey(account.id, await toSettingsChange(input, services))
      return createdJson(created, account, services.clock.now())
    },
    command: { positionals: { id: 'ACCOUNT' }, flags, text: created => describeCreated(created) },
  }),
  defineOperation({
    name: 'keys find',
    method: 'get',
    path: '/keys',
    operationId: 'findKeys',
    summary: 'Keys of all accounts by their last four characters, which are all that is shown of a key; revoked ones too.',
    input: {
      type: 'object',
      properties: {
        ending: { type: 'string', pattern: '^[0-9A-Za-z]{4}$', label: 'the last four characters of a key', description: 'Such as `4f2a`.' },
      },
      required: ['ending'],
    },
    output: listOf(schemaRef('Key')),
    async run({ ending }, { queries, store, clock }) {
      const found = await queries.keysWithHint({ hint: ending })
      const owned = await Promise.all(found.map(async row => ({ row, account: await store.account(row.account) })))
      return owned.flatMap(({ row, account }) => (account === undefined ? [] : [operatorKeyJson(row, account, clock.now())]))
    },
    command: {
      positionals: { ending: 'ENDING' },
      text: (keys, { ending }) =>
        tableOr(
          `no key ends in ${ending}`,
          ['ACCOUNT', 'ID', 'NAME', 'KEY', 'CREATED', 'STATE'],
          keys.map(({ account, id: keyId, name, hint, created, state }) => [
            ...[account.name, keyId, name, `…${hint}`],
            ...[created.slice(0, 10), state],
          ]),
        ),
    },
  }),
  defineOperation({
    name: 'keys list',
    method: 'get',
    path: '/accounts/{id}/keys',
    summary: 'The keys of an account, revoked ones too, with their use.',
    input: { type: 'object', properties: { id: accountId }, required: ['id'] },
    output: listOf(schemaRef('ListedKey')),
    async run(input, services): Promise<readonly ListedKeyJson[]> {
      const account = await findAccount(services, input.id)
      const [rows, lastUses] = await Promise.all([services.store.keys(account.id), readLastUses(services, account.id)])
      return Promise.all(
        rows.map(async row => ({
          ...operatorKeyJson(row, account, services.clock.now()),
          ...(await keyUseJson(services, row, lastUses.get(row.id))),
        })),
      )
    },
    command: {
      positionals: { id: 'ACCOUNT' },
      text(keys, input, { commandLine }) {
        if (keys.length === 0) return [`no keys yet: ${commandLine(`keys add ${input.id}`)}`]
        const columns = [
          'ID',
          'NAME',
          'PROJECT',
          'KEY',
          'NETWORKS',
          'METHODS',
          'ORIGINS',
          'IPS',
          'CREDITS',
          'RATE',
          'EXPIRES',
          'USED TODAY',
          'LAST USED',
          'CREATED',
          'STATE',
        ]
        const rows = keys.map(key => [
          ...[key.id, key.name, key.project, `…${key.hint}`, ...Object.values(formatSettings(key))],
          ...[
            String(key.usedToday ?? '-'),
            key.lastUsed === null ? '-' : `${key.lastUsed.slice(0, 16)}Z`,
            key.created.slice(0, 10),
            formatState(key),
          ],
        ])
        return [{ columns, rows }]
      },
    },
  }),
  defineOperation({
    name: 'keys set',
    method: 'patch',
    path: '/keys/{id}',
    summary: 'Changes the settings of a key that are named.',
    input: { type: 'object', properties: { id, ...settings }, required: ['id'] },
    output: schemaRef('Key'),
    check: checkSettings,
    run: ({ id: keyId, ...input }, services) =>
      changeKey(services, keyId, async ({ accounts }) => accounts.changeKey(keyId, await toSettingsChange(input, services))),
    command: {
      positionals: { id: 'ID' },
      flags,
      text: changed => [
        { fields: { id: changed.id, account: changed.account.name, ...formatSettings(changed), ...formatRareSettings(changed) } },
        ...(changed.state === 'active' ? [] : [`Calls with this key are refused: ${formatState(changed)}.`]),
      ],
    },
  }),
  defineOperation({
    name: 'keys rotate',
    method: 'post',
    path: '/keys/{id}/rotate',
    status: 201,
    summary: 'Creates a key with the same name, lists and limits. The old key is accepted for the overlap, then it expires.',
    input: {
      type: 'object',
      properties: {
        id,
        overlap: {
          type: 'string',
          default: defaultOverlap,
          description: `How long the old key is still accepted; ${defaultOverlap} if absent.`,
        },
      },
      required: ['id'],
    },
    output: schemaRef('RotatedKey'),
    check: ({ overlap }) => void toPositiveDuration('overlap', overlap),
    async run({ id: keyId, overlap }, services) {
      const { key: known, account } = await findKey(services, keyId)
      const now = services.clock.now()
      if (keyRefusal(known, now) !== undefined)
        throw new ApiError(409, 'not-active', `key ${keyId} is not active: ${formatState(operatorKeyJson(known, account, now))}`)
      const created = await services.accounts.rotateKey(known, toPositiveDuration('overlap', overlap))
      const { key: rotated } = await findKey(services, keyId)
      return { ...createdJson(created, account, now), rotated: { id: keyId, expires: isoTimeOrNull(rotated.expires) } }
    },
    command: {
      positionals: { id: 'ID' },
      flags: { overlap: { placeholder: 'DURATION' } },
      text: ({ rotated: { id: keyId, expires }, ...created }, { overlap }) => {
        const expiresFirst = Date.parse(expires ?? '') < Date.parse(created.created) + toPositiveDuration('overlap', overlap)
        return [
          ...describeCreated(created),
          `The old key ${keyId} is accepted ${expiresFirst ? `until it expires at ${expires}` : `for ${overlap} more`}.`,
        ]
      },
    },
  }),
  defineOperation({
    name: 'keys suspend',
    method: 'post',
    path: '/keys/{id}/suspend',
    summary: 'Refuses calls with the key until it is resumed.',
    input: onlyId,
    output: schemaRef('Key'),
    run: ({ id: keyId }, services) =>
      changeKey(services, keyId, ({ accounts, clock }) => accounts.changeKey(keyId, { suspended: clock.now() })),
    command: stateCommand,
  }),
  defineOperation({
    name: 'keys resume',
    method: 'post',
    path: '/keys/{id}/resume',
    summary: 'Accepts calls with a suspended key again.',
    input: onlyId,
    output: schemaRef('Key'),
    async run({ id: keyId }, services) {
      checkResumable((await findKey(services, keyId)).key)
      return changeKey(services, keyId, ({ accounts }) => accounts.changeKey(keyId, { suspended: null }))
    },
    command: stateCommand,
  }),
  defineOperation({
    name: 'keys revoke',
    method: 'post',
    path: '/keys/{id}/revoke',
    summary: 'Refuses calls with the key for good.',
    input: onlyId,
    output: schemaRef('Key'),
    run: ({ id: keyId }, services) => changeKey(services, keyId, ({ accounts }) => accounts.revokeKey(keyId)),
    command: stateCommand,
  }),
]

const describeCreated = ({ key, ...created }: OperatorKeyJson & { readonly key: string }): readonly TextBlock[] => [
  {
    fields: {
      key,
      id: created.id,
      account: created.account.name,
      ...formatSettings(created),
      ...formatRareSettings(created),
    },
  },
  'Save the key now: only its hash is stored, and it cannot be shown again.',
]

const formatList = (list: readonly string[]): string => (list.length === 0 ? allKeyword : list.join(','))

const formatSettings = ({ networks, methods, origins, ips, dailyCredits, rate, burst, expires }: OperatorKeyJson) => ({
  networks: formatList(networks),
  methods: formatList(methods),
  origins: formatList(origins),
  ips: formatList(ips),
  credits: String(dailyCredits ?? noLimitText),
  rate: rate === null ? noLimitText : rate + (burst === null ? '' : `, burst ${burst}`),
  expires: expires ?? neverKeyword,
})

/** What few keys have. */
const formatRareSettings = ({ project, verify }: OperatorKeyJson) => ({
  ...(project !== '' && { project }),
  ...(verify.length > 0 && { verify: verify.join(',') }),
})

/** `active`, or since when the key is refused. */
const formatState = ({ state, revoked, suspended, expires }: OperatorKeyJson): string => {
  if (state === 'active') return state
  return `${state} at ${{ revoked, suspended, expired: expires }[state]}`
}
