import { networkNames } from '../config/load.ts'
import { methodNames } from '../config/methods.ts'
import { isoTime } from '../dates.ts'
import { didYouMean } from '../nearest.ts'
import { hashKey, hintOf, newKey, newKeyId } from '../keys.ts'
import { systemClock } from '../services/clock.ts'
import { changed } from '../store/change.ts'
import type { AccountRow, KeyChange, KeyRow } from '../store/store.ts'
import { Refused, accountOf, withStore } from './books.ts'
import { Misuse } from './command.ts'
import type { Command } from './command.ts'
import { fields, table } from './table.ts'
import { hint, readList, readWords, runVerb } from './verbs.ts'
import type { Verb } from './verbs.ts'

/** What opens the gateway. */
export const keys: Command = {
  name: 'keys',
  summary: 'Adds, lists, changes and revokes the API keys of an account.',
  usage: [
    'keys add ACCOUNT [--networks a,b] [--methods a,b] [--origins a,b] [--json] [--config DIR]',
    'keys list ACCOUNT [--json] [--config DIR]',
    'keys set ID [--networks a,b|all] [--methods a,b|all] [--origins a,b|all] [--json] [--config DIR]',
    'keys revoke ID [--json] [--config DIR]',
  ],
  run: async (args, terminal) => runVerb({ add, list, set, revoke }, args, terminal),
}

const add: Verb = (args, terminal) => {
  const {
    values,
    words: [owner],
  } = readWords(args, ['ACCOUNT'], listOptions)
  const { config, json } = values
  const allowed = readAllowed(values)
  return withStore(config, terminal, async ({ store }) => {
    const account = await accountOf(store, owner)
    checkAllowed(allowed, config)
    const text = newKey().reveal()
    const bare = { id: newKeyId(), account: account.id, created: systemClock.now(), hint: hintOf(text) }
    const row = changed<KeyRow>(bare, allowed)
    await store.addKey(hashKey(text), row)
    warnOfMethods(allowed.methods ?? [], config, terminal.err)
    if (json) return terminal.out(JSON.stringify({ ...shown(row, account), key: text }))
    for (const line of fields({ key: text, id: row.id, account: account.name, ...shownLists(row) })) terminal.out(line)
    terminal.out('Keep the key now: it is not stored and cannot be shown again.')
  })
}

const list: Verb = (args, terminal) => {
  const {
    values: { config, json },
    words: [owner],
  } = readWords(args, ['ACCOUNT'], {})
  return withStore(config, terminal, async ({ store }) => {
    const account = await accountOf(store, owner)
    const rows = await store.keys(account.id)
    if (json) return terminal.out(JSON.stringify(rows.map(row => shown(row, account))))
    if (rows.length === 0) return terminal.out(`no keys yet: tollgate keys add ${account.name}`)
    const cells = rows.map(row => [row.id, `…${row.hint}`, ...Object.values(shownLists(row)), isoTime(row.created), revokedAt(row) ?? ''])
    const titles = ['ID', 'KEY', 'NETWORKS', 'METHODS', 'ORIGINS', 'CREATED', 'REVOKED']
    for (const line of table(titles, cells)) terminal.out(line)
  })
}

const set: Verb = (args, terminal) => {
  const {
    values,
    words: [id],
  } = readWords(args, ['ID'], listOptions)
  const { config, json } = values
  const allowed = readAllowed(values)
  if (Object.keys(allowed).length === 0) throw new Misuse('nothing is to be changed: --networks, --methods or --origins is missing')
  return withStore(config, terminal, async ({ store }) => {
    checkAllowed(allowed, config)
    const row = (await store.changeKey(id, allowed)) ?? refuseUnknown(id)
    warnOfMethods(allowed.methods ?? [], config, terminal.err)
    const account = await accountOf(store, row.account)
    if (json) return terminal.out(JSON.stringify(shown(row, account)))
    for (const line of fields({ id, account: account.name, ...shownLists(row) })) terminal.out(line)
    if (row.revoked !== undefined) terminal.out(`It opens nothing: it is revoked since ${revokedAt(row)}.`)
  })
}

const revoke: Verb = (args, terminal) => {
  const {
    values: { config, json },
    words: [id],
  } = readWords(args, ['ID'], {})
  return withStore(config, terminal, async ({ store }) => {
    const row = (await store.revokeKey(id, systemClock.now())) ?? refuseUnknown(id)
    const account = await accountOf(store, row.account)
    if (json) return terminal.out(JSON.stringify(shown(row, account)))
    terminal.out(`key ${id} of account ${account.name} is revoked since ${revokedAt(row)}`)
  })
}

const listOptions = { networks: { type: 'string' }, methods: { type: 'string' }, origins: { type: 'string' } } as const

const readAllowed = (values: { readonly [K in keyof KeyChange]?: string | undefined }): KeyChange => {
  const networks = readAllowedList('networks', values.networks)
  const methods = readAllowedList('methods', values.methods)
  const origins = readAllowedList('origins', values.origins)
  return {
    ...(networks !== undefined && { networks }),
    ...(methods !== undefined && { methods }),
    ...(origins !== undefined && { origins }),
  }
}

/** Null allows everything. */
const readAllowedList = (name: string, text: string | undefined): readonly string[] | null | undefined =>
  text?.trim() === everything ? null : readList(name, text)

const everything = 'all'

const refuseUnknown = (id: string): never => {
  throw new Refused(`there is no key with the id "${id}"; \`keys list ACCOUNT\` shows the ids`)
}

const checkAllowed = ({ networks, origins }: KeyChange, dir: string): void => {
  checkNetworks(networks ?? [], dir)
  checkOrigins(origins ?? [])
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
    id,
    account: account.name,
    hint,
    networks,
    methods,
    origins,
    created: isoTime(created),
    revoked: revokedAt(row),
  }
}

const shownLists = ({ networks, methods, origins }: KeyRow) => ({
  networks: networks?.join(',') ?? everything,
  methods: methods?.join(',') ?? everything,
  origins: origins?.join(',') ?? everything,
})

const revokedAt = ({ revoked }: KeyRow): string | undefined => (revoked === undefined ? undefined : isoTime(revoked))
