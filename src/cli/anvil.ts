import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { CommandError } from './command.ts'
import type { Terminal } from './command.ts'
import { peerDependencies } from '../core/version.ts'

/** A local Ethereum node: anvil, which only development needs. */
export interface Anvil {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
  /** Resolves when the node exits. */
  readonly exited: Promise<void>
}

/** Starts anvil on a free port of the loopback interface, and waits until it listens (about 100 ms). */
export const startAnvil = async (args: readonly string[] = [], binary = findAnvil(process.env)): Promise<Anvil> => {
  if (binary === undefined) throw new CommandError(notInstalled)
  const child = spawn(binary, ['--host', '127.0.0.1', '--port', '0', ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
    // A group of its own: Ctrl-C must not end the node before the gateway, which would complain of it.
    detached: process.platform !== 'win32',
  })
  const exited = new Promise<void>(resolve => child.once('exit', () => resolve()).once('error', () => resolve()))
  // However this process exits, the node must not outlive it.
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  void exited.then(() => process.off('exit', kill))
  const address = await Promise.race([readListenAddress(child.stdout), exited])
  if (address === undefined) throw new CommandError(`${binary} exited before it listened`)
  return {
    url: `http://${address}`,
    pid: child.pid ?? 0,
    exited,
    async stop() {
      child.kill('SIGTERM')
      await exited
    },
  }
}

const packageName = '@foundry-rs/anvil'
const notInstalled = `the local node is not installed: install ${packageName} beside tollgate, or Foundry, or set DEVNET_URL to another node`
const platformPackage = `${packageName}-${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`
const binaryName = process.platform === 'win32' ? 'anvil.exe' : 'anvil'

/** The package beside this one or in the working directory, or the anvil of Foundry; undefined where neither is installed. */
export const findAnvil = (env: Terminal['env']): string | undefined =>
  findInPackages(import.meta.url) ?? findInPackages(join(process.cwd(), 'package.json')) ?? findAnvilOnPath(env['PATH'] ?? '')

/** The binary itself: the wrapper in its package does not forward signals. The package of the platform may be inside the wrapper's. */
const findInPackages = (from: string): string | undefined => {
  try {
    return createRequire(createRequire(from).resolve(`${packageName}/package.json`)).resolve(`${platformPackage}/bin/${binaryName}`)
  } catch {
    return undefined
  }
}

export const findAnvilOnPath = (path: string): string | undefined => {
  const file = path
    .split(delimiter)
    .map(folder => join(folder, binaryName))
    .find(isExecutable)
  return file && (findInPackages(realpathSync(file)) ?? file)
}

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** With an exact version npm asks once, on a terminal, and later needs no registry. */
const packageVersion = peerDependencies[packageName]?.replace('^', '')

/** Has npm install anvil where `npx` keeps packages, and resolves with the binary. */
export const installAnvil = async ({ env, err }: Pick<Terminal, 'env' | 'err'>, stopRequested: Promise<unknown>): Promise<string> => {
  err('The local node is anvil, from npm. DEVNET_URL names another node.')
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-'))
  const file = join(folder, 'path')
  try {
    // No spaces: a shell reads the words on Windows.
    const script = "require('fs').writeFileSync(process.argv[1],process.env.PATH)"
    const args = ['exec', `--package=${packageName}@${packageVersion}`, '--', 'node', '-e', script, file]
    const npm = spawn('npm', args, { stdio: 'inherit', env, shell: process.platform === 'win32' })
    void stopRequested.then(() => npm.kill())
    await once(npm, 'exit')
    const binary = findAnvilOnPath(readFileSync(file, 'utf8'))
    if (binary !== undefined) return binary
  } catch {
    // There is no npm, or it was told not to install.
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  throw new CommandError(notInstalled)
}

/** Goes on reading after the address: a full pipe would block anvil. */
const readListenAddress = (stdout: NodeJS.ReadableStream): Promise<string> =>
  new Promise(resolve => {
    createInterface(stdout).on('line', line => {
      const address = /^Listening on (\S+)/.exec(line)?.[1]
      if (address !== undefined) resolve(address)
    })
  })
