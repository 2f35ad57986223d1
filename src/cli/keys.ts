import { formatRate } from '../config/formats.ts'
import { systemClock } from '../services/clock.ts'
import { keyRefusal } from '../services/accounts/api-key.ts'
import type { CreatedKey } from '../services/accounts/api-key.ts'
import type { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import type { AccountRow, KeyRow } from '../store/store.ts'
import { isoTime } from '../util/dates.ts'
import { configArgument, readArguments, runSubcommand, storeOptions } from './args.ts'
import type { Subcommand } from './args.ts'
import { CommandError, UsageError, commandSummaries, programName } from './command.ts'
import type { Command, Terminal } from './command.ts'
import {
  allKeyword,
  checkAllowlists,
  keyOptions,
  neverKeyword,
  noLimitKeyword,
  readKeyChange,
  readPositiveDuration,
  warnUnknownMethods,
} from './key-options.ts'
import { getAccount, withStoreContext } from './store-context.ts'
import { formatFields, formatTable } from './table-output.ts'

const defaultOverlap = '1d'

const options = {
  ...keyOptions,
  overlap: {
    type: 'string',
    placeholder: 'DURATION',
    description: `With rotate: how long the old key is still accepted; ${defaultOverlap} if absent.`,
  },
} as const

/** API keys. */
export const keysCommand: Command = {
  name: 'keys',
  summary: commandSummaries.keys,
  usage: [
    'keys add ACCOUNT [--networks A,B] [--methods A,B] [--origins A,B] [--ips A,B] [--credits N] [--rate RATE [--burst N]] [--expires DURATION] [--json] [--config DIR]',
    'keys list ACCOUNT [--json] [--config DIR]',
    'keys set ID [--networks A,B|all] [--methods A,B|all] [--origins A,B|all] [--ips A,B|all] [--credits N|none] [--rate RATE|none [--burst N]] [--expires DURATION|never] [--json] [--config DIR]',
    'keys rotate ID [--overlap DURATION] [--json] [--config DIR]',
    'keys suspend ID [--json] [--config DIR]',
    'keys resume ID [--json] [--config DIR]',
    'keys revoke ID [--json] [--config DIR]',
  ],
  positionals: { ACCOUNT: 'The name or the id of the account.', ID: 'The id of the key, as `keys list` shows it.' },
  options,
  run: async (args, terminal) => runSubcommand({ add, list, set, rotate, suspend, resume, revoke }, args, terminal),
}

const add: Subcommand = (args, terminal) => {
  const {
    values,
    positionals: [accountName],
  } = readArguments(args, ['ACCOUNT'], keyOptions)
  const { config, json } = values
  const settings = readKeyChange(values, systemClock.now())
  return withStoreContext(config, terminal, async ({ store, accounts }) => {
    const account = await getAccount(store, accountName)
    checkAllowlists(settings, config)
    const created = await accounts.createKey(account.id, settings)
    warnUnknownMethods(settings.methods ?? [], config, terminal.err)
    printCreatedKey(created, account, json, terminal)
  })
}

const printCreatedKey = ({ row, key }: CreatedKey, account: AccountRow, json: boolean, { out }: Terminal): void => {
  if (json) return out(JSON.stringify({ ...toKeyJson(row, account), key: key.reveal() }))
  for (const line of formatFields({ key: key.reveal(), id: row.id, account: account.name, ...formatSettings(row) })) out(line)
  out('Save the key now: only its hash is stored, and it cannot be shown again.')
}

const list: Subcommand = (args, terminal) => {
  const {
    values: { config, json },
    positionals: [accountName],
  } = readArguments(args, ['ACCOUNT'], storeOptions)
  return withStoreContext(config, terminal, async ({ store }) => {
    const account = await getAccount(store, accountName)
    const rows = await store.keys(account.id)
    if (json) return terminal.out(JSON.stringify(rows.map(row => toKeyJson(row, account))))
    if (rows.length === 0) return terminal.out(`no keys yet: ${programName(terminal)} keys add ${account.name}${configArgument(config)}`)
    const cells = rows.map(row => [row.id, `…${row.hint}`, ...Object.values(formatSettings(row)), isoTime(row.created), formatState(row)])
    const titles = ['ID', 'KEY', 'NETWORKS', 'METHODS', 'ORIGINS', 'IPS', 'CREDITS', 'RATE', 'EXPIRES', 'CREATED', 'STATE']
    for (const line of formatTable(titles, cells)) terminal.out(line)
  })
}

const set: Subcommand = (args, terminal) => {
  const {
    values,
    positionals: [id],
  } = readArguments(args, ['ID'], keyOptions)
  const { config, json } = values
  const change = readKeyChange(values, systemClock.now())
  if (Object.keys(change).length === 0)
    throw new UsageError('nothing to change: expected --networks, --methods, --origins, --ips, --credits, --rate or --expires')
  return withStoreContext(config, terminal, async ({ store, accounts }) => {
    checkAllowlists(change, config)
    const row = (await accounts.changeKey(id, change)) ?? throwUnknownKey(id)
    warnUnknownMethods(change.methods ?? [], config, terminal.err)
    const account = await getAccount(store, row.account)
    if (json) return terminal.out(JSON.stringify(toKeyJson(row, account)))
    for (const line of formatFields({ id, account: account.name, ...formatSettings(row) })) terminal.out(line)
    if (keyRefusal(row, systemClock.now()) !== undefined) terminal.out(`Calls with this key are refused: ${formatState(row)}.`)
  })
}

const rotate: Subcommand = (args, terminal) => {
  const {
    values: { config, json, overlap = defaultOverlap },
    positionals: [id],
  } = readArguments(args, ['ID'], { overlap: options.overlap, ...storeOptions })
  const overlapMs = readPositiveDuration('overlap', overlap)
  return withStoreContext(config, terminal, async ({ store, accounts }) => {
    const row = (await store.changeKey(id, {})) ?? throwUnknownKey(id)
    if (keyRefusal(row, systemClock.now()) !== undefined) throw new CommandError(`key ${id} is not active: ${formatState(row)}`)
    const created = await accounts.rotateKey(row, overlapMs)
    printCreatedKey(created, await getAccount(store, row.account), json, terminal)
    const expiresFirst = row.expires !== undefined && row.expires <= systemClock.now() + overlapMs
    if (!json)
      terminal.out(
        `The old key ${id} is accepted ${expiresFirst ? `until it expires at ${toIsoTime(row.expires)}` : `for ${overlap} more`}.`,
      )
  })
}

/** A subcommand that changes the state of one key. */
const stateCommand =
  (change: (accounts: RecordedAccounts, id: string) => Promise<KeyRow | undefined>): Subcommand =>
  (args, terminal) => {
    const {
      values: { config, json },
      positionals: [id],
    } = readArguments(args, ['ID'], storeOptions)
    return withStoreContext(config, terminal, async ({ store, accounts }) => {
      const row = (await change(accounts, id)) ?? throwUnknownKey(id)
      const account = await getAccount(store, row.account)
      terminal.out(json ? JSON.stringify(toKeyJson(row, account)) : `key ${id} of account ${account.name}: ${formatState(row)}`)
    })
  }

const suspend = stateCommand((accounts, id) => accounts.changeKey(id, { suspended: systemClock.now() }))

const resume = stateCommand((accounts, id) => accounts.changeKey(id, { suspended: null }))

const revoke = stateCommand((accounts, id) => accounts.revokeKey(id))

const throwUnknownKey = (id: string): never => {
  throw new CommandError(`unknown key id "${id}"; \`keys list ACCOUNT\` shows the ids`)
}

const toKeyJson = (row: KeyRow, account: AccountRow) => {
  const { id, name, hint, networks, methods, origins, ips, dailyCredits, rate, burst, created, expires, suspended, revoked } = row
  return {
    id,
    account: account.name,
    name,
    hint,
    networks,
    methods,
    origins,
    ips,
    dailyCredits,
    rate: rate && formatRate(rate),
    burst,
    created: isoTime(created),
    expires: toIsoTime(expires),
    suspended: toIsoTime(suspended),
    revoked: toIsoTime(revoked),
  }
}

const formatSettings = ({ networks, methods, origins, ips, dailyCredits, rate, burst, expires }: KeyRow) => ({
  networks: networks?.join(',') ?? allKeyword,
  methods: methods?.join(',') ?? allKeyword,
  origins: origins?.join(',') ?? allKeyword,
  ips: ips?.join(',') ?? allKeyword,
  credits: String(dailyCredits ?? noLimitKeyword),
  rate: rate === undefined ? noLimitKeyword : formatRate(rate) + (burst === undefined ? '' : `, burst ${burst}`),
  expires: toIsoTime(expires) ?? neverKeyword,
})

/** `active`, or since when the key is refused. */
const formatState = (row: KeyRow): string => {
  const refusal = keyRefusal(row, systemClock.now())
  if (refusal === undefined) return 'active'
  const since = { revoked: row.revoked, suspended: row.suspended, expired: row.expires }[refusal]
  return `${refusal} at ${toIsoTime(since)}`
}

const toIsoTime = (time: number | undefined): string | undefined => (time === undefined ? undefined : isoTime(time))
