import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createCheckCommand } from '../../src/cli/check.ts'
import { UsageError, exitCodes, runCommand as runByMain } from '../../src/cli/command.ts'
import type { Command } from '../../src/cli/command.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import type { Problem } from '../../src/config/problem.ts'
import type { Config } from '../../src/config/types.ts'
import type { LoadablePlugin } from '../../src/plugin/deferred-plugin.ts'
import { stubPlugins, writeConfig } from '../config/config-fixture.ts'
import { tempFolder } from '../store/temp-store.ts'

export const [accountsCommand, alertsCommand, changesCommand, keysCommand, usageCommand] = (await Promise.all(
  (['accounts', 'alerts', 'changes', 'keys', 'usage'] as const).map(name => commandLoaders[name]()),
)) as [Command, Command, Command, Command, Command] // one of each name

/** The output of a command, and its exit code. */
export interface CommandResult {
  readonly code: number
  readonly out: readonly string[]
  readonly err: readonly string[]
}

export interface TestConfigs {
  readonly dir: string
  /** Runs a command on these configs; a UsageError becomes exit code 64 and its message. */
  run(command: Command, ...args: string[]): Promise<CommandResult>
  /** The same with --json, parsed. */
  json(command: Command, ...args: string[]): Promise<unknown>
}

/** A configuration directory with two plans and three networks, and a store next to it. */
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
  const run = (command: Command, ...args: string[]) => runCommand(command, [...args, '--config', dir])
  return {
    dir,
    run,
    async json(command, ...args) {
      const { out, err } = await run(command, ...args, '--json')
      if (err.length > 0) throw new Error(err.join('\n'))
      return JSON.parse(out.join('\n')) as unknown
    },
  }
}

export const runCommand = async (command: Command, args: readonly string[]): Promise<CommandResult> => {
  const [out, err]: string[][] = [[], []]
  const terminal = { out: (line: string) => void out?.push(line), err: (line: string) => void err?.push(line), env: {} }
  try {
    return { code: await runByMain(command, args, terminal), out: out ?? [], err: err ?? [] }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    return { code: exitCodes.usage, out: [], err: [error.message] }
  }
}

type DryRun = (config: Config) => Promise<readonly Problem[]>

export const noProblems: DryRun = async () => []

/** Runs `check` on the files of a configuration. Paths in its messages are relative to the configuration. */
export const runCheck = async (
  t: Test,
  files: Readonly<Record<string, string>>,
  { env = {}, dryRun = noProblems, plugins = stubPlugins as readonly LoadablePlugin[], args = [] as readonly string[] } = {},
): Promise<CommandResult> => {
  const dir = writeConfig(t.testdir(), files)
  const [out, err]: [string[], string[]] = [[], []]
  const terminal = { env, out: (line: string) => void out.push(line), err: (line: string) => void err.push(line) }
  const code = await createCheckCommand(plugins, dryRun).run([...args, '--config', dir], terminal)
  const withoutDir = (text: string): string => text.replaceAll(`${dir.slice(process.cwd().length + 1)}/`, '')
  return { code, out: out.map(withoutDir), err: err.map(withoutDir) }
}
