import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { cwd } from 'node:process'
import { parseStoreAddress } from '../config/store-address.ts'
import type { StoreAddress } from '../config/types.ts'
import { expandVariables } from '../config/variables.ts'
import { systemClock } from '../services/clock.ts'
import { copyStore } from '../store/copy-store.ts'
import type { CopyProgress } from '../store/copy-store.ts'
import { openStore } from '../store/open-store.ts'
import { StoreError } from '../store/store.ts'
import type { Store } from '../store/store.ts'
import { CommandError } from './store-context.ts'
import { UsageError, exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { readArguments, runSubcommand } from './args.ts'
import type { Subcommand } from './args.ts'

/** Moves an installation between a folder and a Redis. */
export const storeCommand: Command = {
  name: 'store',
  summary: 'Copies all of a store into another: lmdb:PATH or redis://HOST:PORT, either way.',
  usage: ['store copy FROM TO [--live] [--json]'],
  run: async (args, terminal) => runSubcommand({ copy }, args, terminal),
}

const copy: Subcommand = async (args, terminal) => {
  const {
    values: { live, json },
    positionals: [from, to],
  } = readArguments(args, ['FROM', 'TO'], options)
  const source = readStoreAddress('FROM', from, terminal)
  const target = readStoreAddress('TO', to, terminal)
  try {
    if (formatAddress(source) === formatAddress(target)) throw new CommandError('FROM and TO are the same store')
    requireExistingStore(source)
    return await withStores(source, target, async (sourceStore, targetStore) => {
      if (live !== true) await requireNoGateways({ FROM: sourceStore, TO: targetStore })
      const copied = await copyStore(sourceStore, targetStore, createProgressReporter(terminal))
      terminal.status?.('')
      if (json) return terminal.out(JSON.stringify(copied))
      const { accounts, keys, balances, counts } = copied
      const found = `${accounts} accounts, ${keys} keys, ${balances} of today's balances, ${counts} counts of calls`
      terminal.out(`copied and compared: ${found}`)
    })
  } catch (error) {
    if (!(error instanceof CommandError || error instanceof StoreError)) throw error
    terminal.status?.('')
    terminal.err(`tollgate: ${error.message}`)
    return exitCodes.failed
  }
}

/** Both stores are named by words: there is no configuration to read. */
const options = { live: { type: 'boolean' }, json: { type: 'boolean' } } as const

const readStoreAddress = (name: string, text: string, { env }: Terminal): StoreAddress => {
  const substituted = expandVariables(text, env)
  const unset = substituted?.unset[0]
  if (unset !== undefined) throw new UsageError(`${name}: the environment variable ${unset.name} is not set`)
  const address = parseStoreAddress(substituted?.text ?? text, cwd())
  if (address === undefined) throw new UsageError(`${name} must be lmdb:PATH or redis://HOST:PORT`)
  return address
}

const formatAddress = (address: StoreAddress): string => (address.kind === 'lmdb' ? address.path : address.url.reveal())

/** Opening it would make it, and a mistyped path would be an empty store. */
const requireExistingStore = (address: StoreAddress): void => {
  if (address.kind === 'lmdb' && !existsSync(join(address.path, 'data.mdb'))) {
    throw new CommandError(`there is no store in ${address.path}`)
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

const requireNoGateways = async (stores: Readonly<Record<string, Store>>): Promise<void> => {
  for (const [name, store] of Object.entries(stores)) {
    const processes = await store.countLiveProcesses()
    if (processes === 0) continue
    const who = processes === 1 ? 'a gateway process uses' : `${processes} gateway processes use`
    throw new CommandError(`${who} ${name}: stop the gateways for an exact copy, or add --live while they are idle`)
  }
}

/** One line that is drawn over and over where somebody watches, else a line for each tenth of the way. */
const createProgressReporter = ({ err, status }: Terminal): CopyProgress => {
  let lastReportedTenth = 0
  return {
    accounts(done, all) {
      if (status !== undefined) return status(`${formatProgressBar(done / all)} ${done} of ${all} accounts`)
      if (Math.floor((10 * done) / all) <= lastReportedTenth) return
      lastReportedTenth = Math.floor((10 * done) / all)
      err(`${done} of ${all} accounts`)
    },
    counts: done => status?.(`${formatProgressBar(1)} ${done} counts of calls`),
  }
}

const formatProgressBar = (fraction: number): string => `[${'#'.repeat(Math.round(30 * fraction)).padEnd(30, '.')}]`
