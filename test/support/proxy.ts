import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootDir } from '../tools/source-files.ts'
import { freePort } from './free-port.ts'
import { waitUntil } from './wait-until.ts'

/** Where a gateway listens, now or later. Gateways differ by their hosts, as the shipped files have one port for the checks of all. */
export interface ProxiedGateway {
  readonly host: string
  readonly rpcPort: number
  readonly adminPort: number
}

export interface RunningProxy {
  readonly url: string
  close(): Promise<void>
}

/** The program, its arguments, and the shipped file with other gateways. */
interface ProxyKind {
  /** Fails where the program is not installed. */
  readonly versionCommand: readonly [string, string]
  command(file: string, dir: string): readonly [string, ...string[]]
  configure(shipped: string, port: number, gateways: readonly ProxiedGateway[]): string
  /** With the line of docs/scale.md that hashes keys. */
  hashKeys(shipped: string): string
}

const kinds = {
  'haproxy.cfg': {
    versionCommand: ['haproxy', '-v'],
    command: file => ['haproxy', '-f', file],
    configure: (shipped, port, gateways) =>
      replaceServers(
        shipped,
        /^ {4}server gateway-.*\n/gm,
        ({ host, rpcPort }, i) => `    server gateway-${i} ${host}:${rpcPort}\n`,
        gateways,
      )
        .replace('check port 8082', `check port ${gateways[0]?.adminPort}`)
        .replace('bind :8080', `bind 127.0.0.1:${port}`),
    hashKeys: shipped => shipped.replace('balance leastconn', 'balance hash path\n    hash-type consistent'),
  },
  'nginx.conf': {
    versionCommand: ['nginx', '-v'],
    command: (file, dir) => ['nginx', '-p', dir, '-c', file, '-g', 'daemon off;'],
    configure: (shipped, port, gateways) => {
      const calls = /^ {4}server gateway-.*fail_timeout=2s;\n/gm
      const sockets = /^ {4}server gateway-.*max_fails=0;\n/gm
      const server =
        (end: string) =>
        ({ host, rpcPort }: ProxiedGateway) =>
          `    server ${host}:${rpcPort} ${end};\n`
      const configured = replaceServers(
        replaceServers(shipped, calls, server('max_fails=1 fail_timeout=2s'), gateways),
        sockets,
        server('max_fails=0'),
        gateways,
      )
        .replace('listen 8080;', `listen 127.0.0.1:${port};`)
        .replace('/dev/stdout', 'access.log')
      return `pid nginx.pid;\nevents {}\nhttp {\n${configured}\n}\n`
    },
    hashKeys: shipped => shipped.replace('upstream tollgate {', 'upstream tollgate {\n    hash $uri$http_x_api_key consistent;'),
  },
  Caddyfile: {
    versionCommand: ['caddy', 'version'],
    command: file => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
    configure: (shipped, port, gateways) =>
      shipped
        .replace('{\n', '{\n\tadmin off\n')
        .replace(/^ethereum-mainnet\..* \{$/m, `http://:${port} {\n\tbind 127.0.0.1`)
        .replace('gateway-a:8080 gateway-b:8080', gateways.map(({ host, rpcPort }) => `${host}:${rpcPort}`).join(' '))
        .replace('health_port 8082', `health_port ${gateways[0]?.adminPort}`),
    hashKeys: shipped => shipped.replace('health_interval 2s', 'health_interval 2s\n\t\tlb_policy uri_hash'),
  },
} as const satisfies Readonly<Record<string, ProxyKind>>

export type ProxyFile = keyof typeof kinds

/** The shipped files whose program is installed, and those whose program is not. */
export const proxies = (): {
  readonly installed: readonly ProxyFile[]
  readonly missing: readonly { readonly file: ProxyFile; readonly program: string }[]
} => {
  const files = (Object.keys(kinds) as ProxyFile[]).map(file => {
    const [program, argument] = kinds[file].versionCommand
    return { file, program, isInstalled: spawnSync(program, [argument]).status === 0 }
  })
  return { installed: files.filter(each => each.isInstalled).map(({ file }) => file), missing: files.filter(each => !each.isInstalled) }
}

/** The servers of the file are replaced by one for each gateway. */
const replaceServers = (
  text: string,
  servers: RegExp,
  format: (gateway: ProxiedGateway, i: number) => string,
  gateways: readonly ProxiedGateway[],
): string => {
  let isFirst = true
  return text.replace(servers, () => {
    const lines = isFirst ? gateways.map(format).join('') : ''
    isFirst = false
    return lines
  })
}

/** Runs a proxy with its shipped file. `hashesKeys`: an account calls the same gateway while it is there. */
export const startProxy = async (name: ProxyFile, gateways: readonly ProxiedGateway[], hashesKeys: boolean): Promise<RunningProxy> => {
  const [dir, port] = [mkdtempSync(join(tmpdir(), 'tollgate-proxy-')), await freePort()]
  const file = join(dir, name)
  const shipped = readFileSync(join(rootDir, 'deploy/proxies', name), 'utf8')
  writeFileSync(file, kinds[name].configure(hashesKeys ? kinds[name].hashKeys(shipped) : shipped, port, gateways))
  const [program, ...args] = kinds[name].command(file, dir)
  const logFile = join(dir, 'proxy.log')
  const log = openSync(logFile, 'w')
  const child = spawn(program, args, { stdio: ['ignore', log, log], env: { ...process.env, XDG_CONFIG_HOME: dir, XDG_DATA_HOME: dir } })
  closeSync(log)
  const killOnExit = () => void child.kill('SIGKILL')
  process.once('exit', killOnExit)
  const url = `http://127.0.0.1:${port}`
  await waitUntil(() =>
    fetch(url).then(
      () => true,
      () => child.exitCode !== null,
    ),
  )
  if (child.exitCode !== null) throw new Error(`${program} exited with ${child.exitCode}: ${readFileSync(logFile, 'utf8')}`)
  return {
    url,
    async close() {
      const ended = once(child, 'close')
      child.kill('SIGTERM')
      await ended
      process.off('exit', killOnExit)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
