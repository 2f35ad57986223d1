import { networkNames } from '../config/load.ts'
import { declaredMethodNames } from '../config/method-tables.ts'
import { isoTime } from '../util/dates.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { hashApiKey, keyHint, generateApiKey, generateKeyId } from '../services/accounts/api-key.ts'
import { systemClock } from '../services/clock.ts'
import { applyChange } from '../store/store.ts'
import type { AccountRow, KeyChange, KeyRow } from '../store/store.ts'
import { CommandError, getAccount, withStoreContext } from './store-context.ts'
import { UsageError } from './command.ts'
import type { Command } from './command.ts'
import { formatFields, formatTable } from './text-table.ts'
import { formatAlternatives, formatHint, readArguments, readList, runSubcommand, storeOptions } from './args.ts'
import type { Subcommand } from './args.ts'

/** In place of a list: no restriction. */
const allKeyword = 'all'

const allowlistOptions = {
  networks: {
    type: 'string',
    placeholder: 'A,B',
    description: 'The networks that the key may call; `all`, and without it: every network.',
  },
  methods: { type: 'string', placeholder: 'A,B', description: 'The methods that the key may call; `all`, and without it: every method.' },
  origins: {
    type: 'string',
    placeholder: 'A,B',
    description: 'The web pages that may use the key, by origin, such as https://dapp.example; `all`, and without it: every page.',
  },
  ...storeOptions,
} as const

/** API keys. */
export const keysCommand: Command = {
  name: 'keys',
  summary: 'Adds, lists, changes and revokes the API keys of an account.',
  usage: [
    'keys add ACCOUNT [--networks A,B] [--methods A,B] [--origins A,B] [--json] [--config DIR]',
    'keys list ACCOUNT [--json] [--config DIR]',
    'keys set ID [--networks A,B|all] [--methods A,B|all] [--origins A,B|all] [--json] [--config DIR]',
    'keys revoke ID [--json] [--config DIR]',
  ],
  positionals: { ACCOUNT: 'The name or the id of the account.', ID: 'The id of the key, as `keys list` shows it.' },
  options: allowlistOptions,
  run: async (args, terminal) => runSubcommand({ add, list, set, revoke }, args, terminal),
}

const add: Subcommand = (args, terminal) => {
  const {
    values,
    positionals: [accountName],
  } = readArguments(args, ['ACCOUNT'], allowlistOptions)
  const { config, json } = values
  const allowlists = readAllowlists(values)
  return withStoreContext(config, terminal, async ({ store }) => {
    const account = await getAccount(store, accountName)
    checkAllowlists(allowlists, config)
    const apiKey = generateApiKey().reveal()
    const newRow = { id: generateKeyId(), account: account.id, created: systemClock.now(), hint: keyHint(apiKey) }
    const row = applyChange<KeyRow>(newRow, allowlists)
    await store.addKey(hashApiKey(apiKey), row)
    warnUnknownMethods(allowlists.methods ?? [], config, terminal.err)
    if (json) return terminal.out(JSON.stringify({ ...toKeyJson(row, account), key: apiKey }))
    for (const line of formatFields({ key: apiKey, id: row.id, account: account.name, ...formatAllowlists(row) })) terminal.out(line)
    terminal.out('Save the key now: only its hash is stored, and it cannot be shown again.')
  })
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
    if (rows.length === 0) return terminal.out(`no keys yet: tollgate keys add ${account.name}`)
    const cells = rows.map(row => [
      row.id,
      `…${row.hint}`,
      ...Object.values(formatAllowlists(row)),
      isoTime(row.created),
      formatRevokedAt(row) ?? '',
    ])
    const titles = ['ID', 'KEY', 'NETWORKS', 'METHODS', 'ORIGINS', 'CREATED', 'REVOKED']
    for (const line of formatTable(titles, cells)) terminal.out(line)
  })
}

const set: Subcommand = (args, terminal) => {
  const {
    values,
    positionals: [id],
  } = readArguments(args, ['ID'], allowlistOptions)
  const { config, json } = values
  const allowlists = readAllowlists(values)
  if (Object.keys(allowlists).length === 0) throw new UsageError('nothing to change: expected --networks, --methods or --origins')
  return withStoreContext(config, terminal, async ({ store }) => {
    checkAllowlists(allowlists, config)
    const row = (await store.changeKey(id, allowlists)) ?? throwUnknownKey(id)
    warnUnknownMethods(allowlists.methods ?? [], config, terminal.err)
    const account = await getAccount(store, row.account)
    if (json) return terminal.out(JSON.stringify(toKeyJson(row, account)))
    for (const line of formatFields({ id, account: account.name, ...formatAllowlists(row) })) terminal.out(line)
    if (row.revoked !== undefined) terminal.out(`This key was revoked at ${formatRevokedAt(row)}: its calls are rejected.`)
  })
}

const revoke: Subcommand = (args, terminal) => {
  const {
    values: { config, json },
    positionals: [id],
  } = readArguments(args, ['ID'], storeOptions)
  return withStoreContext(config, terminal, async ({ store }) => {
    const row = (await store.revokeKey(id, systemClock.now())) ?? throwUnknownKey(id)
    const account = await getAccount(store, row.account)
    if (json) return terminal.out(JSON.stringify(toKeyJson(row, account)))
    terminal.out(`key ${id} of account ${account.name} was revoked at ${formatRevokedAt(row)}`)
  })
}

const readAllowlists = (values: { readonly [K in keyof KeyChange]?: string | undefined }): KeyChange => {
  const networks = readAllowlist('networks', values.networks)
  const methods = readAllowlist('methods', values.methods)
  const origins = readAllowlist('origins', values.origins)
  return {
    ...(networks !== undefined && { networks }),
    ...(methods !== undefined && { methods }),
    ...(origins !== undefined && { origins }),
  }
}

/** Null allows everything. */
const readAllowlist = (name: string, text: string | undefined): readonly string[] | null | undefined =>
  text?.trim() === allKeyword ? null : readList(name, text)

const throwUnknownKey = (id: string): never => {
  throw new CommandError(`unknown key id "${id}"; \`keys list ACCOUNT\` shows the ids`)
}

const checkAllowlists = ({ networks, origins }: KeyChange, dir: string): void => {
  checkNetworks(networks ?? [], dir)
  checkOrigins(origins ?? [])
}

const checkNetworks = (requested: readonly string[], dir: string): void => {
  const known = networkNames(dir)
  const unknown = requested.find(name => !known.includes(name))
  if (unknown === undefined) return
  const hint = didYouMean(unknown, known) ?? (known.length === 0 ? 'there are none yet' : `expected ${formatAlternatives(known)}`)
  throw new CommandError(`unknown network "${unknown}"${formatHint(hint)}`)
}

/** A warning only: the `params` plugin of a network may add methods that no table has. */
const warnUnknownMethods = (methods: readonly string[], dir: string, warn: (line: string) => void): void => {
  const known = declaredMethodNames(dir)
  for (const name of known.length === 0 ? [] : methods.filter(method => !known.includes(method))) {
    warn(`warning: no method table has "${name}"${formatHint(didYouMean(name, known))}`)
  }
}

/** Browsers send scheme, host and port in `Origin`; any other text would match no page. */
const checkOrigins = (origins: readonly string[]): void => {
  for (const text of origins) {
    const origin = URL.canParse(text) ? new URL(text).origin : undefined
    if (origin === text) continue
    const hasNoOrigin = origin === undefined || origin === 'null'
    const hint = hasNoOrigin ? 'expected an origin such as https://dapp.example' : `did you mean \`${origin}\`?`
    throw new CommandError(`invalid origin "${text}"; ${hint}`)
  }
}

const toKeyJson = (row: KeyRow, account: AccountRow) => {
  const { id, hint, networks, methods, origins, created } = row
  return {
    id,
    account: account.name,
    hint,
    networks,
    methods,
    origins,
    created: isoTime(created),
    revoked: formatRevokedAt(row),
  }
}

const formatAllowlists = ({ networks, methods, origins }: KeyRow) => ({
  networks: networks?.join(',') ?? allKeyword,
  methods: methods?.join(',') ?? allKeyword,
  origins: origins?.join(',') ?? allKeyword,
})

const formatRevokedAt = ({ revoked }: KeyRow): string | undefined => (revoked === undefined ? undefined : isoTime(revoked))
