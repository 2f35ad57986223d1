import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { AnyPlugin } from '../plugin.ts'
import { filesIn, isDirectory, shownPath, yamlNames } from './files.ts'
import { readGateway } from './gateway.ts'
import { hostsTwice } from './hosts.ts'
import { openTables } from './methods.ts'
import { readNetwork } from './network.ts'
import { sortProblems } from './problem.ts'
import type { Problem } from './problem.ts'
import type { Config } from './types.ts'
import type { Env } from './variables.ts'

/** Reads a whole configuration directory and collects the problems of all its files. Starts nothing. */
export const loadConfig = async (dir: string, plugins: readonly AnyPlugin[], env: Env): Promise<Config> => {
  const root = resolve(dir)
  if (!isDirectory(root)) return { gateway: undefined, networks: [], unserved: [], problems: [noDirectory(root)] }
  const gateway = readGateway(root, env)
  const tables = openTables(root)
  const names = networkNames(root)
  const networks = await Promise.all(names.map(name => readNetwork(networkPath(root, name), { plugins, tables, env })))
  const problems = [
    ...gateway.problems,
    ...networks.flatMap(network => network.problems),
    ...hostsTwice(networks.flatMap(network => network.hosts)),
    ...misnamed(root),
    ...(names.length === 0 ? [noNetworks(root)] : []),
  ]
  return {
    gateway: gateway.config,
    networks: networks.flatMap(({ config }) => config ?? []),
    unserved: networks.flatMap(({ unserved }) => unserved ?? []),
    problems: sortProblems(problems),
  }
}

/** The networks that a configuration directory has files for, sorted. */
export const networkNames = (dir: string): readonly string[] => yamlNames(join(dir, 'networks')).filter(name => !name.endsWith('.test'))

const networkPath = (dir: string, name: string): string => join(dir, 'networks', `${name}.yaml`)

const noDirectory = (dir: string): Problem => ({
  file: shownPath(dir),
  line: 1,
  column: 1,
  message: existsSync(dir) ? 'this is no directory' : 'there is no such directory',
  hint: 'give the directory of the configuration with --config DIR',
})

const noNetworks = (dir: string): Problem => ({
  file: shownPath(join(dir, 'networks')),
  line: 1,
  column: 1,
  message: 'there is no network to serve',
  hint: `write ${shownPath(networkPath(dir, 'NAME'))}`,
})

/** A file that would be passed over in silence because of its ending. */
const misnamed = (dir: string): readonly Problem[] =>
  ['networks', 'methods'].flatMap(folder =>
    filesIn(join(dir, folder))
      .filter(file => file.endsWith('.yml'))
      .map(file => ({
        file: shownPath(join(dir, folder, file)),
        line: 1,
        column: 1,
        message: 'the file is not read: its name must end in .yaml',
        hint: `rename it to ${file.replace(/yml$/, 'yaml')}`,
      })),
  )
