import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createClient } from '@redis/client'
import type { RedisAddress } from '../../src/config/types.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { freePort } from './free-port.ts'
import { waitUntil } from './wait-until.ts'

/** A real redis-server for one test, on a free port, with its files in a temporary folder. */
export interface RedisServer {
  readonly host: string
  readonly port: number
  /** Of connections with TLS; undefined without tlsOptions(). */
  readonly tlsPort: number | undefined
  readonly url: string
  readonly address: RedisAddress
  /** Sends one command on a connection of its own. */
  send(...words: readonly string[]): Promise<unknown>
  /** SIGKILL; data that is not on disk is lost. */
  kill(): Promise<void>
  /** Starts the server again with the same port and files. */
  restart(): Promise<void>
  /** SIGSTOP: connections stay open without responses. */
  pause(): void
  /** SIGCONT. */
  resume(): void
  /** Kills the server, and deletes its files. */
  remove(): Promise<void>
}

/** Valkey where there is no Redis. TOLLGATE_REDIS_PROGRAM names another program. */
const serverProgram = [process.env['TOLLGATE_REDIS_PROGRAM'] ?? 'redis-server', 'valkey-server'].find(
  name => spawnSync(name, ['--version']).status === 0,
)

/** For tap's `skip`: false when a server is installed. */
export const skipWithoutRedis: string | false = serverProgram === undefined ? 'redis-server is not installed' : false

/** The certificates of `support/certificates`, of which `authority` has signed `valid`, for 127.0.0.1. */
export const certificateFile = (name: string): string =>
  fileURLToPath(new URL(`../../../test/support/certificates/${name}.pem`, import.meta.url))

/** Options of a server that takes connections with TLS too, on a port of their own. */
export const tlsOptions = async (): Promise<readonly string[]> =>
  Object.entries({
    '--tls-port': `${await freePort()}`,
    '--tls-cert-file': certificateFile('valid'),
    '--tls-key-file': certificateFile('valid'),
    '--tls-ca-cert-file': certificateFile('authority'),
    '--tls-auth-clients': 'no',
  }).flat()

/** Where a server runs: `command` stands before that of the server. */
export interface ServerPlace {
  readonly host: string
  readonly command: readonly string[]
}

export const localPlace: ServerPlace = { host: '127.0.0.1', command: [] }

/** `options` are those of redis-server. */
export const startRedisServer = (...options: readonly string[]): Promise<RedisServer> => startRedisServerAt(localPlace, ...options)

export const startRedisServerAt = async (place: ServerPlace, ...options: readonly string[]): Promise<RedisServer> => {
  const port = await freePort()
  // A replica that joins waits 5 s for others, unless told otherwise.
  const atOnce = ['--repl-diskless-sync-delay', '0']
  const defaults = ['--port', `${port}`, '--bind', place.host, '--protected-mode', 'no', '--save', '', ...atOnce]
  return startServer(place, port, 'Ready to accept connections', dir => [...defaults, '--dir', dir, ...options])
}

/**
 * A Sentinel of the primary, whom it calls `main`. With a quorum of Sentinels it replaces one that is silent for a second. It uses TLS where the
 * primary does, and then takes connections with TLS too.
 */
export const startSentinel = async (primary: RedisServer, quorum: number, place = localPlace): Promise<RedisServer> => {
  const port = await freePort()
  const tls = primary.tlsPort === undefined ? [] : [...(await tlsOptions()), '--tls-replication', 'yes']
  return startServer(place, port, '+monitor', dir => {
    const file = join(dir, 'sentinel.conf')
    writeFileSync(
      file,
      `port ${port}
bind ${place.host}
protected-mode no
dir ${dir}
sentinel monitor main ${primary.host} ${primary.tlsPort ?? primary.port} ${quorum}
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 4000
`,
    )
    return [file, '--sentinel', ...tls]
  })
}

/** Waits until the replica has all that the primary has written. */
export const untilReplicated = (primary: RedisServer, replica: RedisServer): Promise<void> =>
  waitUntil(async () => {
    const [written, read] = (await Promise.all([primary, replica].map(server => server.send('INFO', 'replication')))).map(String)
    return /master_repl_offset:(\d+)/.exec(written ?? '')?.[1] === /slave_repl_offset:(\d+)/.exec(read ?? '')?.[1]
  })

const startServer = async (
  { host, command }: ServerPlace,
  port: number,
  readyText: string,
  argsOf: (dir: string) => readonly string[],
): Promise<RedisServer> => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-redis-'))
  const args = argsOf(dir)
  const url = `redis://${host}:${port}`
  const tlsAt = args.indexOf('--tls-port')
  // Copies are cheap: @redis/client builds a class for the options of each new client, which takes milliseconds.
  const clientTemplate = createClient({ url, RESP: 2, commandOptions: { timeout: 0 } })
  let child = await spawnRedisServer([...command, serverProgram ?? 'redis-server', ...args], readyText)
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'close')
  }
  return {
    host,
    port,
    tlsPort: tlsAt < 0 ? undefined : Number(args[tlsAt + 1]),
    url,
    kill,
    address: { kind: 'redis', url: new Secret(url, `${host}:${port}`) },
    async send(...words) {
      // Rejects when the connection is lost, which is also an event that must have a listener.
      const client = clientTemplate.duplicate().on('error', () => undefined)
      try {
        await client.connect()
        return await client.sendCommand([...words])
      } finally {
        client.destroy()
      }
    },
    async restart() {
      child = await spawnRedisServer([...command, serverProgram ?? 'redis-server', ...args], readyText)
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async remove() {
      await kill()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

const running = new Set<ChildProcess>()
// A test file that crashes must not leave servers behind.
process.once('exit', () => running.forEach(child => child.kill('SIGKILL')))

const spawnRedisServer = async ([program = '', ...args]: readonly string[], readyText: string): Promise<ChildProcess> => {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  running.add(child)
  child.once('close', () => running.delete(child))
  const lines: string[] = []
  for await (const line of createInterface(child.stdout)) {
    lines.push(line)
    if (!line.includes(readyText)) continue
    child.stdout.resume()
    return child
  }
  throw new Error(`redis-server exited: ${lines.join('\n')}`)
}
