#!/usr/bin/env node
import { loadModulesSync } from './runtime/load-modules-sync.ts'
import { UsageError, exitCodes } from './cli/command.ts'
import type { Command, Terminal } from './cli/command.ts'
import { didYouMean } from './util/did-you-mean.ts'
import { version } from './core/version.ts'

/** Loaded only when asked for: the gateway takes half a second to load, and most commands need little of it. */
const commandLoaders: Readonly<Record<string, () => Promise<Command>>> = {
  dev: async () => (await import('./cli/dev.ts')).createDevCommand(await loadBuiltInPlugins()),
  start: async () => {
    loadModulesSync(new URL('./cli/start.js', import.meta.url), new URL('../plugins/index.js', import.meta.url))
    return (await import('./cli/start.ts')).createStartCommand(await loadBuiltInPlugins())
  },
  check: async () =>
    (await import('./cli/check.ts')).createCheckCommand(await loadBuiltInPlugins(), (await import('./core/dry-run.ts')).dryRunNetworks),
  accounts: async () => (await import('./cli/accounts.ts')).accountsCommand,
  keys: async () => (await import('./cli/keys.ts')).keysCommand,
  usage: async () => (await import('./cli/usage.ts')).usageCommand,
  audit: async () => (await import('./cli/audit.ts')).auditCommand,
  store: async () => (await import('./cli/store-copy.ts')).storeCommand,
}

const loadBuiltInPlugins = async () => (await import('../plugins/index.ts')).plugins

const terminal: Terminal = {
  out: line => void process.stdout.write(`${line}\n`),
  err: line => void process.stderr.write(`${line}\n`),
  ...(process.stderr.isTTY && { status: (text: string) => void process.stderr.write(`\r\x1b[K${text}`) }),
  env: process.env,
}

const runCommandLine = async ([name, ...args]: readonly string[]): Promise<number> => {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return printHelp(terminal.out, exitCodes.ok)
  if (name === '--version') {
    terminal.out(version)
    return exitCodes.ok
  }
  const load = Object.hasOwn(commandLoaders, name) ? commandLoaders[name] : undefined
  if (load === undefined) {
    const hint = didYouMean(name, Object.keys(commandLoaders))
    terminal.err(`tollgate: there is no command "${name}"${hint === undefined ? '' : `; ${hint}`}`)
    return printHelp(terminal.err, exitCodes.usage)
  }
  const command = await load()
  if (args.includes('--help') || args.includes('-h')) return printCommandHelp(command, terminal.out, exitCodes.ok)
  try {
    return await command.run(args, terminal)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    terminal.err(`tollgate ${name}: ${error.message}`)
    return printCommandHelp(command, terminal.err, exitCodes.usage)
  }
}

const printHelp = async (write: (line: string) => void, code: number): Promise<number> => {
  write('Usage: tollgate COMMAND [--config DIR]\n')
  for (const load of Object.values(commandLoaders)) {
    const { name, summary } = await load()
    write(`  ${name.padEnd(10)} ${summary}`)
  }
  write('\n`tollgate COMMAND --help` says more. DIR is `configs` unless given.')
  return code
}

const printCommandHelp = ({ summary, usage }: Command, write: (line: string) => void, code: number): number => {
  write(`${summary}\n`)
  for (const form of usage) write(`  tollgate ${form}`)
  return code
}

process.exit(await runCommandLine(process.argv.slice(2)))
