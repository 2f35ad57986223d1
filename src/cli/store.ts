import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { cwd } from 'node:process'
import { parseStoreAddress } from '../config/store-address.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { countNoun, printProblems } from '../config/problem.ts'
import type { PlainStoreAddress } from '../config/types.ts'
import { expandVariables } from '../config/variables.ts'
import { systemClock } from '../services/clock.ts'
import { copyStore } from '../store/copy-store.ts'
import type { CopyProgress, CopySummary } from '../store/copy-store.ts'
import type { Engine } from '../store/engine.ts'
import { backupStore, openEngine } from '../store/open-store.ts'
import { StoreDays } from '../store/store-days.ts'
import { StoreError } from '../store/store.ts'
import { releaseStore, switchStore } from '../store/switch-store.ts'
import type { SwitchSummary } from '../store/switch-store.ts'
import { dayMs, isoDate } from '../util/dates.ts'
import { withStoreContext } from './store-context.ts'
import { CommandError, UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { jsonOption, readArguments, runSubcommand, commonOptions } from './args.ts'
import type { Subcommand } from './args.ts'
import { runUntilAborted } from './stop-signals.ts'

/** Both stores are arguments: no configuration is read. */
const copyOptions = {
  switch: {
    type: 'boolean',
    description: 'Copies while gateways use FROM, which know TO by `FROM -> TO` in their `store`, and lets them go over to TO.',
  },
  json: jsonOption,
} as const

/** Moves an installation between an embedded store and a Redis, and repairs a store after a wrong clock. */
export const storeCommand: Command = {
  name: 'store',
  summary: commandSummaries.store,
  usage: ['store copy FROM TO [--switch] [--json]', 'store backup FOLDER [--json] [--config DIR]', 'store repair [--json] [--config DIR]'],
  positionals: {
    FROM: 'The store to copy: lmdb:PATH or redis://HOST:PORT.',
    TO: 'The store to copy into, in the same form; empty, or what a copy of FROM that was cut off has left.',
    FOLDER: 'The new folder of the backup.',
  },
  options: { ...copyOptions, ...commonOptions },
  examples: {
    'store copy lmdb:data redis://127.0.0.1:6379': 'copies an installation whose gateways are stopped to a Redis',
    "store copy '${REDIS_URL}' '${CLUSTER_URL}' --switch": 'moves the gateways from one to the other while they serve',
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
    const processes = await store.countLiveProcesses()
    if (processes > 0)
      throw new CommandError(`${formatUsers(processes)} the store: stop the gateways first, or they would go on with its day`)
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
  return runUntilAborted(terminal, 'nothing was backed up', async signal => {
    const { accounts, keys, bytes } = await backupStore(config.store, systemClock, resolve(folder), signal)
    terminal.out(
      json
        ? JSON.stringify({ accounts, keys, bytes })
        : `backed up: ${countNoun(accounts, 'account')}, ${countNoun(keys, 'key')}, ${bytes} bytes in ${folder}`,
    )
    return exitCodes.ok
  })
}

const copy: Subcommand = async (args, terminal) => {
  const {
    values: { switch: switches, json },
    positionals: [from, to],
  } = readArguments(args, ['FROM', 'TO'], copyOptions)
  const source = readStoreAddress('FROM', from, terminal)
  const target = readStoreAddress('TO', to, terminal)
  requireExistingStore(source)
  return runUntilAborted(terminal, 'run the command again, which goes on with the copy', signal =>
    withEngines(source, target, async (sourceEngine, targetEngine) => {
      const progress = createProgressReporter(terminal, signal)
      if (switches === true) {
        const switched = await switchStore(sourceEngine, targetEngine, systemClock, progress)
        terminal.status?.('')
        if (json) return terminal.out(JSON.stringify(switched))
        return terminal.out(`${formatCopied('copied', switched)}\n${formatSwitched(switched)}`)
      }
      await requireNoGateways({ FROM: sourceEngine, TO: targetEngine }, 'stop the gateways, or add --switch to copy while they serve')
      const copied = await copyStore(sourceEngine, targetEngine, progress)
      terminal.status?.('')
      terminal.out(json ? JSON.stringify(copied) : formatCopied('copied and compared', copied))
    }),
  )
}

const formatCopied = (what: string, { accounts, keys, rows }: CopySummary): string =>
  `${what}: ${countNoun(accounts, 'account')}, ${countNoun(keys, 'key')}, ${countNoun(rows, 'row')}`

const formatSwitched = ({ heldMs, processes, missing }: SwitchSummary): string => {
  const lost = missing === 0 ? '' : `; ${missing} that used FROM are not seen: restart them`
  return `TO is in use by ${processes} processes of gateways${lost}. FROM took no changes for ${heldMs} ms`
}

const readStoreAddress = (name: string, text: string, { env }: Terminal): PlainStoreAddress => {
  const substituted = expandVariables(text, env)
  const unset = substituted?.unset[0]
  if (unset !== undefined) throw new UsageError(`${name}: the environment variable ${unset.name} is not set`)
  const address = parseStoreAddress(substituted?.text ?? text, cwd())
  if (address === undefined || address.from !== undefined) throw new UsageError(`${name} must be lmdb:PATH or redis://HOST:PORT`)
  return address
}

/** Opening a store creates it: a mistyped path would be copied as an empty store. */
const requireExistingStore = (address: PlainStoreAddress): void => {
  if (address.kind === 'lmdb' && !existsSync(join(address.path, 'data.mdb'))) {
    throw new CommandError(`FROM: no store in ${address.path}: name its folder, which has a file data.mdb, as seen from ${cwd()}`)
  }
}

const withEngines = async (
  from: PlainStoreAddress,
  to: PlainStoreAddress,
  work: (from: Engine, to: Engine) => Promise<void>,
): Promise<number> => {
  const source = await openNamed('FROM', from)
  try {
    // Also where TO cannot be opened: gateways wait while a run that was cut off holds FROM.
    await releaseStore(source, systemClock)
    const target = await openNamed('TO', to)
    await work(source, target).finally(() => target.close())
    return exitCodes.ok
  } finally {
    await source.close()
  }
}

/** An error says which of the two cannot be used. */
const openNamed = (name: string, address: PlainStoreAddress): Promise<Engine> =>
  openEngine(address, systemClock).catch((error: unknown) => {
    throw error instanceof StoreError ? new StoreError(`${name}: ${error.message}`, { cause: error }) : error
  })

const requireNoGateways = async (stores: Readonly<Record<string, Engine>>, hint: string): Promise<void> => {
  for (const [name, engine] of Object.entries(stores)) {
    const processes = (await new StoreDays(engine, systemClock).live()).processes.size
    if (processes > 0) throw new CommandError(`${formatUsers(processes)} ${name}: ${hint}`)
  }
}

const formatUsers = (processes: number): string => (processes === 1 ? 'a gateway process uses' : `${processes} gateway processes use`)

/** One line that is overwritten on a terminal, else a line for each 100,000 rows. Throws once the signal is aborted. */
const createProgressReporter = ({ err, status }: Terminal, signal: AbortSignal): CopyProgress => {
  let [reportedSteps, reportedRows] = [0, -1]
  return rows => {
    signal.throwIfAborted()
    if (rows === reportedRows) return
    reportedRows = rows
    if (status !== undefined) return status(`${rows} rows`)
    const steps = Math.floor(rows / rowsPerLine)
    if (steps <= reportedSteps) return
    reportedSteps = steps
    err(`${rows} rows`)
  }
}

const rowsPerLine = 100_000
