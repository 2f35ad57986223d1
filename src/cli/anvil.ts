import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { CommandError } from './command.ts'

/** A local Ethereum node: anvil, a development dependency. */
export interface Anvil {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
  /** Resolves when the node exits. */
  readonly exited: Promise<void>
}

/**
 * Starts anvil on a free port of the loopback interface, and waits until it listens (about 100 ms). Runs the binary of this
 * platform itself: the wrapper in its package does not forward signals.
 */
export const startAnvil = async (args: readonly string[] = []): Promise<Anvil> => {
  const child = spawn(resolveBinary(), ['--host', '127.0.0.1', '--port', '0', ...args], {
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
  if (address === undefined) throw new CommandError('anvil exited before it listened')
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

const resolveBinary = (): string => {
  const name = `@foundry-rs/anvil-${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`
  const file = process.platform === 'win32' ? 'anvil.exe' : 'anvil'
  try {
    // The package of the platform is a dependency of @foundry-rs/anvil, and may be installed inside it.
    const wrapper = createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json')
    return createRequire(wrapper).resolve(`${name}/bin/${file}`)
  } catch {
    throw new CommandError(`the local node (${name}) is not installed; set DEVNET_URL to another node, or run npm install`)
  }
}

/** Goes on reading after the address: a full pipe would block anvil. */
const readListenAddress = (stdout: NodeJS.ReadableStream): Promise<string> =>
  new Promise(resolve => {
    createInterface(stdout).on('line', line => {
      const address = /^Listening on (\S+)/.exec(line)?.[1]
      if (address !== undefined) resolve(address)
    })
  })
