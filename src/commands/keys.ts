import { networkNames } from '../config/load.ts'
import { methodNames } from '../config/methods.ts'
import { didYouMean } from '../nearest.ts'
import { hashKey, hintOf, newKey, newKeyId } from '../keys.ts'
import { systemClock } from '../services/clock.ts'
import type { AccountRow, KeyRow } from '../store/store.ts'
import type { Command } from './command.ts'
import { Refused, accountOf, isoTime, withStore } from './store.ts'
import { fields, table } from './table.ts'
import { hint, readList, readWords, runVerb } from './verbs.ts'
import type { Verb } from './verbs.ts'

/** What opens the gateway. */
export const keys: Command = {
  name: 'keys',
  summary: 'Adds, lists and revokes the API keys of an account.',
  usage: [
    'keys add ACCOUNT [--networks a,b] [--methods a,b] [--origins a,b] [--json] [--config DIR]',
    'keys list ACCOUNT [--json] [--config DIR]',
    'keys revoke ID [--json] [--config DIR]',
  ],
  run: async (args, terminal) => runVerb({ add, list, revoke }, args, terminal),
}

const add: Verb = (args, terminal) => {
  const { values, words: [owner] } = readWords(args, ['ACCOUNT'], listOptions)
  const { config, json } = values
  const allowed = readAllowed(values)
  return withStore(config, terminal, async ({ store }) => {
    const account = await accountOf(store, owner)
    checkNetworks(allowed.networks ?? [], config)
    checkOrigins(allowed.origins ?? [])
    const text = newKey().reveal()
    const row = {
      id: newKeyId(), account: account.id, created: systemClock.now(), hint: hintOf(text), ...allowed,
    }
    await store.addKey(hashKey(text), row)
    warnOfMethods(allowed.methods ?? [], config, terminal.err)
    if (json) return terminal.out(JSON.stringify({ ...shown(row, account), key: text }))
    for (const line of fields({ key: text, id: row.id, account: account.name, ...shownLists(row) })) terminal.out(line)
    terminal.out('Keep the key now: it is not stored and cannot be shown again.')
  })
}

const list: Verb = (args, terminal) => {
  const { values: { config, json }, words: [owner] } = readWords(args, ['ACCOUNT'], {})
  return withStore(config, terminal, async ({ store }) => {
    const account = await accountOf(store, owner)
    const rows = await store.keys(account.id)
    if (json) return terminal.out(JSON.stringify(rows.map(row => shown(row, account))))
    if (rows.length === 0) return terminal.out(`no keys yet: tollgate keys add ${account.name}`)
    const cells = rows.map(row => [
      row.id, `…${row.hint}`, ...Object.values(shownLists(row)), isoTime(row.created), revokedAt(row) ?? '',
    ])
    const titles = ['ID', 'KEY', 'NETWORKS', 'METHODS', 'ORIGINS', 'CREATED', 'REVOKED']
    for (const line of table(titles, cells)) terminal.out(line)
  })
}

const revoke: Verb = (args, terminal) => {
  const { values: { config, json }, words: [id] } = readWords(args, ['ID'], {})
  return withStore(config, terminal, async ({ store }) => {
    const row = await store.revokeKey(id, systemClock.now())
    if (row === undefined) throw new Refused(`there is no key with the id "${id}"; \`keys list ACCOUNT\` shows the ids`)
    const account = await accountOf(store, row.account)
    if (json) return terminal.out(JSON.stringify(shown(row, account)))
    terminal.out(`key ${id} of account ${account.name} is revoked since ${revokedAt(row)}`)
  })
}

const listOptions = { networks: { type: 'string' }, methods: { type: 'string' }, origins: { type: 'string' } } as const

type Allowed = Pick<KeyRow, keyof typeof listOptions>

const readAllowed = (values: { readonly [K in keyof Allowed]?: string | undefined }): Allowed => {
  const networks = readList('networks', values.networks)
  const methods = readList('methods', values.methods)
  const origins = readList('origins', values.origins)
  return { ...networks && { networks }, ...methods && { methods }, ...origins && { origins } }
}

const checkNetworks = (wanted: readonly string[], dir: string): void => {
  const known = networkNames(dir)
  const wrong = wanted.find(name => !known.includes(name))
  if (wrong === undefined) return
  const help = didYouMean(wrong, known) ?? (known.length === 0 ? 'there are none yet' : `there are ${known.join(', ')}`)
  throw new Refused(`there is no network "${wrong}"${hint(help)}`)
}

/** Not refused: a network may offer methods that no table has. */
const warnOfMethods = (wanted: readonly string[], dir: string, warn: (line: string) => void): void => {
  const known = methodNames(dir)
  for (const name of known.length === 0 ? [] : wanted.filter(one => !known.includes(one))) {
    const help = didYouMean(name, known)
    warn(`warning: no method table has "${name}"${hint(help)}`)
  }
}

/** A browser sends scheme, host and port, and nothing after them; any other text would match no page. */
const checkOrigins = (wanted: readonly string[]): void => {
  for (const text of wanted) {
    const origin = URL.canParse(text) ? new URL(text).origin : undefined
    if (origin === text) continue
    const isFar = origin === undefined || origin === 'null'
    const help = isFar ? 'write it like https://dapp.example' : `did you mean \`${origin}\`?`
    throw new Refused(`"${text}" is not the origin of a page; ${help}`)
  }
}

const shown = (row: KeyRow, account: AccountRow) => {
  const { id, hint, networks, methods, origins, created } = row
  return {
    id, account: account.name, hint, networks, methods, origins, created: isoTime(created), revoked: revokedAt(row),
  }
}

const shownLists = ({ networks, methods, origins }: KeyRow) => ({
  networks: networks?.join(',') ?? 'all',
  methods: methods?.join(',') ?? 'all',
  origins: origins?.join(',') ?? 'all',
})

const revokedAt = ({ revoked }: KeyRow): string | undefined => revoked === undefined ? undefined : isoTime(revoked)
