import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { cwd } from 'node:process'
import { parseStore } from '../config/store.ts'
import type { StoreAddress } from '../config/types.ts'
import { fill } from '../config/variables.ts'
import { systemClock } from '../services/clock.ts'
import { copyStore } from '../store/copy.ts'
import type { Progress } from '../store/copy.ts'
import { openStore } from '../store/open.ts'
import { StoreFault } from '../store/store.ts'
import type { Store } from '../store/store.ts'
import { Refused } from './books.ts'
import { Misuse, exit } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { readOnly, runVerb } from './verbs.ts'
import type { Verb } from './verbs.ts'

/** Moves an installation between a folder and a Redis. */
export const store: Command = {
  name: 'store',
  summary: 'Copies all of a store into another: lmdb:PATH or redis://HOST:PORT, either way.',
  usage: ['store copy FROM TO [--live] [--json]'],
  run: async (args, terminal) => runVerb({ copy }, args, terminal),
}

const copy: Verb = async (args, terminal) => {
  const {
    values: { live, json },
    words: [from, to],
  } = readOnly(args, ['FROM', 'TO'], options)
  const source = addressOf('FROM', from, terminal)
  const target = addressOf('TO', to, terminal)
  try {
    if (shown(source) === shown(target)) throw new Refused('FROM and TO are the same store')
    refuseMissing(source)
    return await withStores(source, target, async (here, there) => {
      if (live !== true) await refuseLive({ FROM: here, TO: there })
      const copied = await copyStore(here, there, progressOn(terminal))
      terminal.status?.('')
      if (json) return terminal.out(JSON.stringify(copied))
      const { accounts, keys, balances, counts } = copied
      const found = `${accounts} accounts, ${keys} keys, ${balances} of today's balances, ${counts} counts of calls`
      terminal.out(`copied and compared: ${found}`)
    })
  } catch (error) {
    if (!(error instanceof Refused || error instanceof StoreFault)) throw error
    terminal.status?.('')
    terminal.err(`tollgate: ${error.message}`)
    return exit.failed
  }
}

/** Both stores are named by words: there is no configuration to read. */
const options = { live: { type: 'boolean' }, json: { type: 'boolean' } } as const

const addressOf = (name: string, word: string, { env }: Terminal): StoreAddress => {
  const filled = fill(word, env)
  const unset = filled?.unset[0]
  if (unset !== undefined) throw new Misuse(`${name}: the environment variable ${unset.name} is not set`)
  const address = parseStore(filled?.text ?? word, cwd())
  if (address === undefined) throw new Misuse(`${name} must be lmdb:PATH or redis://HOST:PORT`)
  return address
}

const shown = (address: StoreAddress): string => (address.kind === 'lmdb' ? address.path : address.url.reveal())

/** Opening it would make it, and a mistyped path would be an empty store. */
const refuseMissing = (address: StoreAddress): void => {
  if (address.kind === 'lmdb' && !existsSync(join(address.path, 'data.mdb'))) {
    throw new Refused(`there is no store in ${address.path}`)
  }
}

const withStores = async (from: StoreAddress, to: StoreAddress, work: (from: Store, to: Store) => Promise<void>): Promise<number> => {
  const source = await openStore(from, systemClock)
  try {
    const target = await openStore(to, systemClock)
    await work(source, target).finally(() => target.close())
    return exit.ok
  } finally {
    await source.close()
  }
}

const refuseLive = async (stores: Readonly<Record<string, Store>>): Promise<void> => {
  for (const [name, store] of Object.entries(stores)) {
    const processes = await store.processes()
    if (processes === 0) continue
    const who = processes === 1 ? 'a gateway process uses' : `${processes} gateway processes use`
    throw new Refused(`${who} ${name}: stop the gateways for an exact copy, or add --live while they are idle`)
  }
}

/** One line that is drawn over and over where somebody watches, else a line for each tenth of the way. */
const progressOn = ({ err, status }: Terminal): Progress => {
  let tenth = 0
  return {
    accounts(done, all) {
      if (status !== undefined) return status(`${bar(done / all)} ${done} of ${all} accounts`)
      if (Math.floor((10 * done) / all) <= tenth) return
      tenth = Math.floor((10 * done) / all)
      err(`${done} of ${all} accounts`)
    },
    counts: done => status?.(`${bar(1)} ${done} counts of calls`),
  }
}

const bar = (part: number): string => `[${'#'.repeat(Math.round(30 * part)).padEnd(30, '.')}]`
