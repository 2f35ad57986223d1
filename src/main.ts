#!/usr/bin/env node
import { fstatSync, writeFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { UsageError, commandSummaries, exitCodes, formatCommandHelp, formatUsage, runCommand } from './cli/command.ts'
import type { Terminal } from './cli/command.ts'
import { findCommandLoader } from './cli/commands.ts'
import { version } from './core/version.ts'
import { keepCompiledCode, saveCompiledCode } from './runtime/compile-cache.ts'
import { holdTickShape } from './runtime/gc-hints.ts'
import { systemClock } from './services/clock.ts'
import { didYouMean } from './util/did-you-mean.ts'
import { styleOf } from './util/style.ts'

/** Why a file has not the whole output, such as a backup of accounts: there is no more space for it. */
let outputLoss: string | undefined
const isFile = fstatSync(1).isFile()

/** A file may take a part of a text: the stream of Node.js would lose the rest without an error. */
const writeOut = (text: string): void => {
  if (!isFile) return void process.stdout.write(text)
  try {
    writeFileSync(1, text)
  } catch (error) {
    outputLoss ??= error instanceof Error ? error.message : String(error)
  }
}

const terminal: Terminal = {
  out: line => writeOut(`${line}\n`),
  err: line => void process.stderr.write(`${line}\n`),
  ...(process.stderr.isTTY && { status: (text: string) => void process.stderr.write(`\r\x1b[K${text}`) }),
  styleOut: styleOf(process.stdout, process.env),
  styleErr: styleOf(process.stderr, process.env),
  isWatched: process.stdout.isTTY,
  env: process.env,
}

const runCommandLine = async ([name, ...args]: readonly string[]): Promise<number> => {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return printHelp(terminal.out, exitCodes.ok)
  if (name === '--version') {
    terminal.out(version)
    return exitCodes.ok
  }
  const load = findCommandLoader(name)
  if (load === undefined) {
    const hint = didYouMean(name, Object.keys(commandSummaries)) ?? '`tollgate help` lists the commands'
    terminal.err(`tollgate: unknown command "${name}"; ${hint}`)
    return exitCodes.usage
  }
  const command = await load()
  const isHelp = args.includes('--help') || args.includes('-h')
  if (isHelp) return printLines(formatCommandHelp(command), terminal.out, exitCodes.ok)
  try {
    return await runCommand(command, args, terminal)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    terminal.err(`tollgate ${name}: ${error.message}`)
    return printLines(formatUsage(command, args), terminal.err, exitCodes.usage)
  }
}

const nameColumnChars = 10

const printHelp = (write: (line: string) => void, code: number): number => {
  const lines = Object.entries(commandSummaries).map(([name, summary]) => `  ${name.padEnd(nameColumnChars)} ${summary}`)
  return printLines(
    ['Usage: tollgate COMMAND', '', ...lines, '', '`tollgate COMMAND --help` describes a command and its options.'],
    write,
    code,
  )
}

const printLines = (lines: readonly string[], write: (line: string) => void, code: number): number => {
  lines.forEach(write)
  return code
}

// Whoever reads the output may end first (`tollgate keys list | head -1`), or the terminal may: the command still ends in order.
process.stderr.on('error', () => undefined)
process.stdout.on('error', ({ code = '', message }: NodeJS.ErrnoException) => {
  if (['ENOSPC', 'EDQUOT', 'EFBIG'].includes(code)) outputLoss ??= message
})

keepCompiledCode(process.env)
holdTickShape(systemClock.every)

/** What a pipe has not taken yet would be lost with the process: `tollgate audit --json | gzip`. Resolves also where nobody reads it any more. */
const whenWritten = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise(resolve => {
    if (stream.writableLength === 0) resolve()
    else stream.write('', () => resolve())
  })

const exit = async (code: number): Promise<void> => {
  await whenWritten(process.stdout)
  await nextTurn() // an error of the last write is an event
  if (outputLoss !== undefined) terminal.err(`tollgate: the output is not complete: ${outputLoss}`)
  await whenWritten(process.stderr)
  saveCompiledCode()
  process.exit(outputLoss !== undefined && code === exitCodes.ok ? exitCodes.failed : code)
}

/** As an uncaught error: what a plugin leaves unhandled in a promise only logs. */
const crash = (bug: unknown): void =>
  void setImmediate(() => {
    throw bug
  })

// Not awaited: the bundle consists of CommonJS modules, which have no `await` at their top level.
runCommandLine(process.argv.slice(2)).then(exit, crash)
