import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { cwd } from 'node:process'
import { parseStoreAddress } from '../config/store-address.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { countNoun, printProblems } from '../config/problem.ts'
import type { StoreAddress } from '../config/types.ts'
import { expandVariables } from '../config/variables.ts'
import { systemClock } from '../services/clock.ts'
import { copyStore } from '../store/copy-store.ts'
import type { CopyProgress } from '../store/copy-store.ts'
import { backupStore, openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'
import { dayMs, isoDate } from '../util/dates.ts'
import { withStoreContext } from './store-context.ts'
import { CommandError, UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { jsonOption, readArguments, runSubcommand, commonOptions } from './args.ts'
import type { Subcommand } from './args.ts'

/** Both stores are arguments: no configuration is read. */
const copyOptions = {
  live: { type: 'boolean', description: 'Copies although gateways use the stores; for gateways that serve no calls meanwhile.' },
  json: jsonOption,
} as const

const progressBarChars = 30

/** Without a terminal, progress is printed for each tenth of the accounts. */
const progressStepCount = 10

/** Moves an installation between an embedded store and a Redis, and repairs a store after a wrong clock. */
export const storeCommand: Command = {
  name: 'store',
  summary: commandSummaries.store,
  usage: ['store copy FROM TO [--live] [--json]', 'store backup FOLDER [--json] [--config DIR]', 'store repair [--json] [--config DIR]'],
  positionals: {
    FROM: 'The store to copy: lmdb:PATH or redis://HOST:PORT.',
    TO: 'The store to copy into, in the same form.',
    FOLDER: 'The new folder of the backup.',
  },
  options: { ...copyOptions, ...commonOptions },
  examples: {
    'store copy lmdb:data redis://127.0.0.1:6379': 'moves an installation to a Redis',
    'store backup /backup/2026-01-31': 'while the gateway serves',
  },
  run: async (args, terminal) => runSubcommand({ copy, backup, repair }, args, terminal),
}

/** The day of a store never goes back by itself: a wrong clock may have taken it to a far date. */
const repair: Subcommand = (args, terminal) => {
  const {
    values: { config, json },
  } = readArguments(args, [], commonOptions)
  return withStoreContext(config, terminal, async ({ store }) => {
    await requireNoGateways({ 'the store': store }, 'stop the gateways first, or they would go on with its day')
    const { from, to } = await store.resetDay()
    const days = { from: isoDate(from * dayMs), to: isoDate(to * dayMs) }
    const done =
      from === to ? `the store's day is that of the clock: ${days.to}` : `the store's day was ${days.from}, and is ${days.to} now`
    terminal.out(json ? JSON.stringify(days) : done)
  })
}

/** Gateways may use the store meanwhile. */
const backup: Subcommand = async (args, terminal) => {
  const {
    values: { config: dir, json },
    positionals: [folder],
  } = readArguments(args, ['FOLDER'], commonOptions)
  const { config, problems } = readGatewayConfig(dir, terminal.env)
  printProblems(problems, terminal)
  if (config === undefined) return exitCodes.config
  const { accounts, keys, bytes } = await backupStore(config.store, resolve(folder))
  terminal.out(
    json
      ? JSON.stringify({ accounts, keys, bytes })
      : `backed up: ${countNoun(accounts, 'account')}, ${countNoun(keys, 'key')}, ${bytes} bytes in ${folder}`,
  )
  return exitCodes.ok
}

const copy: Subcommand = async (args, terminal) => {
  const {
    values: { live, json },
    positionals: [from, to],
  } = readArguments(args, ['FROM', 'TO'], copyOptions)
  const source = readStoreAddress('FROM', from, terminal)
  const target = readStoreAddress('TO', to, terminal)
  if (formatAddress(source) === formatAddress(target)) throw new CommandError('FROM and TO are the same store')
  requireExistingStore(source)
  return withStores(source, target, async (sourceStore, targetStore) => {
    if (live !== true) await requireNoGateways({ FROM: sourceStore, TO: targetStore }, exactCopyHint)
    const copied = await copyStore(sourceStore, targetStore, createProgressReporter(terminal))
    terminal.status?.('')
    if (json) return terminal.out(JSON.stringify(copied))
    const { accounts, keys, balances, counts } = copied
    const others = `${countNoun(balances, 'balance')} of today, ${countNoun(counts, 'usage count')}`
    terminal.out(`copied and compared: ${countNoun(accounts, 'account')}, ${countNoun(keys, 'key')}, ${others}`)
  })
}

const readStoreAddress = (name: string, text: string, { env }: Terminal): StoreAddress => {
  const substituted = expandVariables(text, env)
  const unset = substituted?.unset[0]
  if (unset !== undefined) throw new UsageError(`${name}: the environment variable ${unset.name} is not set`)
  const address = parseStoreAddress(substituted?.text ?? text, cwd())
  if (address === undefined) throw new UsageError(`${name} must be lmdb:PATH or redis://HOST:PORT`)
  return address
}

const formatAddress = (address: StoreAddress): string => (address.kind === 'lmdb' ? address.path : address.url.reveal())

/** Opening a store creates it: a mistyped path would be copied as an empty store. */
const requireExistingStore = (address: StoreAddress): void => {
  if (address.kind === 'lmdb' && !existsSync(join(address.path, 'data.mdb'))) {
    throw new CommandError(`no store in ${address.path}`)
  }
}

const withStores = async (from: StoreAddress, to: StoreAddress, work: (from: Store, to: Store) => Promise<void>): Promise<number> => {
  const source = await openStore(from, systemClock)
  try {
    const target = await openStore(to, systemClock)
    await work(source, target).finally(() => target.close())
    return exitCodes.ok
  } finally {
    await source.close()
  }
}

const exactCopyHint = 'stop the gateways for an exact copy, or add --live while they are idle'

const requireNoGateways = async (stores: Readonly<Record<string, Store>>, hint: string): Promise<void> => {
  for (const [name, store] of Object.entries(stores)) {
    const processes = await store.countLiveProcesses()
    if (processes === 0) continue
    const subject = processes === 1 ? 'a gateway process uses' : `${processes} gateway processes use`
    throw new CommandError(`${subject} ${name}: ${hint}`)
  }
}

/** One line that is overwritten on a terminal, else a line for each tenth of the accounts. */
const createProgressReporter = ({ err, status }: Terminal): CopyProgress => {
  let lastReportedStep = 0
  return {
    accounts(done, all) {
      if (status !== undefined) return status(`${formatProgressBar(done / all)} ${done} of ${all} accounts`)
      const step = Math.floor((progressStepCount * done) / all)
      if (step <= lastReportedStep) return
      lastReportedStep = step
      err(`${done} of ${all} accounts`)
    },
    counts: done => status?.(`${formatProgressBar(1)} ${done} usage counts`),
  }
}

const formatProgressBar = (fraction: number): string =>
  `[${'#'.repeat(Math.round(progressBarChars * fraction)).padEnd(progressBarChars, '.')}]`
