#!/usr/bin/env node
import { loadAtOnce } from './at-once.ts'
import { Misuse, exit } from './commands/command.ts'
import type { Command, Terminal } from './commands/command.ts'
import { didYouMean } from './nearest.ts'
import { version } from './version.ts'

/** Loaded only when asked for: the gateway takes half a second to load, and most commands need little of it. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  dev: async () => (await import('./commands/dev.ts')).createDev(await builtIn()),
  start: async () => {
    loadAtOnce(new URL('./commands/start.js', import.meta.url), new URL('../plugins/index.js', import.meta.url))
    return (await import('./commands/start.ts')).createStart(await builtIn())
  },
  check: async () => (await import('./commands/check.ts')).createCheck(await builtIn(), (await import('./inert.ts')).tryNetworks),
  accounts: async () => (await import('./commands/accounts.ts')).accounts,
  keys: async () => (await import('./commands/keys.ts')).keys,
  usage: async () => (await import('./commands/usage.ts')).usage,
  audit: async () => (await import('./commands/audit.ts')).audit,
  store: async () => (await import('./commands/store-copy.ts')).store,
}

const builtIn = async () => (await import('../plugins/index.ts')).plugins

const terminal: Terminal = {
  out: line => void process.stdout.write(`${line}\n`),
  err: line => void process.stderr.write(`${line}\n`),
  ...(process.stderr.isTTY && { status: (text: string) => void process.stderr.write(`\r\x1b[K${text}`) }),
  env: process.env,
}

const run = async ([name, ...args]: readonly string[]): Promise<number> => {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return help(terminal.out, exit.ok)
  if (name === '--version') {
    terminal.out(version)
    return exit.ok
  }
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (load === undefined) {
    const hint = didYouMean(name, Object.keys(commands))
    terminal.err(`tollgate: there is no command "${name}"${hint === undefined ? '' : `; ${hint}`}`)
    return help(terminal.err, exit.usage)
  }
  const command = await load()
  if (args.includes('--help') || args.includes('-h')) return helpOn(command, terminal.out, exit.ok)
  try {
    return await command.run(args, terminal)
  } catch (error) {
    if (!(error instanceof Misuse)) throw error
    terminal.err(`tollgate ${name}: ${error.message}`)
    return helpOn(command, terminal.err, exit.usage)
  }
}

const help = async (write: (line: string) => void, code: number): Promise<number> => {
  write('Usage: tollgate COMMAND [--config DIR]\n')
  for (const load of Object.values(commands)) {
    const { name, summary } = await load()
    write(`  ${name.padEnd(10)} ${summary}`)
  }
  write('\n`tollgate COMMAND --help` says more. DIR is `configs` unless given.')
  return code
}

const helpOn = ({ summary, usage }: Command, write: (line: string) => void, code: number): number => {
  write(`${summary}\n`)
  for (const form of usage) write(`  tollgate ${form}`)
  return code
}

process.exit(await run(process.argv.slice(2)))
