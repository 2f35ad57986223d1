import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { UsageError } from '../../src/cli/command.ts'
import type { Command } from '../../src/cli/command.ts'
import { tempFolder } from '../store/temp-store.ts'

/** What a command printed, and its exit code. */
export interface CommandResult {
  readonly code: number
  readonly out: readonly string[]
  readonly err: readonly string[]
}

export interface TestConfigs {
  readonly dir: string
  /** Runs a command line on these configs; a Misuse is its exit code 64 and its message. */
  run(command: Command, ...words: string[]): Promise<CommandResult>
  /** The same with --json, parsed. */
  json(command: Command, ...words: string[]): Promise<unknown>
}

/** A configuration directory with two plans and three networks, and a store beside it. */
export const createTestConfigs = async (t: Test): Promise<TestConfigs> => {
  const dir = join(await tempFolder(t), 'configs')
  await mkdir(join(dir, 'networks'), { recursive: true })
  await writeFile(
    join(dir, 'gateway.yaml'),
    ['store: lmdb:../data', 'plans:', '  core: { dailyCredits: 1000 }', '  growth: { dailyCredits: 5000, forwarding: true }', ''].join(
      '\n',
    ),
  )
  const names = ['devnet', 'base-mainnet', 'devnet.test']
  for (const name of names) await writeFile(join(dir, 'networks', `${name}.yaml`), '')
  const run = (command: Command, ...words: string[]) => runCommand(command, [...words, '--config', dir])
  return {
    dir,
    run,
    async json(command, ...words) {
      const { out, err } = await run(command, ...words, '--json')
      if (err.length > 0) throw new Error(err.join('\n'))
      return JSON.parse(out.join('\n')) as unknown
    },
  }
}

export const runCommand = async (command: Command, args: readonly string[]): Promise<CommandResult> => {
  const [out, err]: string[][] = [[], []]
  const terminal = { out: (line: string) => void out?.push(line), err: (line: string) => void err?.push(line), env: {} }
  try {
    return { code: await command.run(args, terminal), out: out ?? [], err: err ?? [] }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    return { code: 64, out: [], err: [error.message] }
  }
}
