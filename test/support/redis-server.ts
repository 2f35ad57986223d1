import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createClient } from '@redis/client'
import type { RedisAddress } from '../../src/config/types.ts'
import { Secret } from '../../src/plugin/secret.ts'

/** A Redis of the test's own: a real redis-server on a free port, with its files in a folder that goes away. */
export interface RedisServer {
  readonly port: number
  readonly url: string
  readonly address: RedisAddress
  /** One command, on a connection of its own. */
  send(...words: readonly string[]): Promise<unknown>
  /** SIGKILL; what it has not written is lost. */
  kill(): Promise<void>
  /** Starts it again, on the same port and files. */
  restart(): Promise<void>
  /** SIGSTOP: connections stay, and nothing answers. */
  pause(): void
  /** SIGCONT. */
  resume(): void
  /** Kills what runs, and deletes everything. */
  remove(): Promise<void>
}

/** For tap's `skip`: why tests that need a Redis cannot run here; false when they can. */
export const skipWithoutRedis: string | false =
  spawnSync('redis-server', ['--version']).status === 0 ? false : 'redis-server is not installed'

/** `options` are redis-server's own. */
export const startRedisServer = async (...options: readonly string[]): Promise<RedisServer> => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-redis-'))
  const port = await freePort()
  const url = `redis://127.0.0.1:${port}`
  let child = await spawnRedisServer(port, dir, options)
  // A test file that crashes takes its Redis with it.
  const end = () => void child.kill('SIGKILL')
  process.once('exit', end)
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'close')
  }
  return {
    port,
    url,
    kill,
    address: { kind: 'redis', url: new Secret(url, `127.0.0.1:${port}`) },
    async send(...words) {
      const client = await createClient({ url, RESP: 2, commandOptions: { timeout: 0 } }).connect()
      return client.sendCommand([...words]).finally(() => client.destroy())
    },
    async restart() {
      child = await spawnRedisServer(port, dir, options)
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async remove() {
      await kill()
      process.off('exit', end)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

const spawnRedisServer = async (port: number, dir: string, options: readonly string[]): Promise<ChildProcess> => {
  const own = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', '']
  const child = spawn('redis-server', [...own, ...options], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: string[] = []
  for await (const line of createInterface(child.stdout)) {
    lines.push(line)
    if (!line.includes('Ready to accept connections')) continue
    child.stdout.resume()
    return child
  }
  throw new Error(`redis-server ended: ${lines.join('\n')}`)
}

const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo // a TCP server has no other kind of address
  probe.close()
  await once(probe, 'close')
  return port
}
