import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootDir } from '../tools/source-files.ts'
import { freePort } from './free-port.ts'
import { waitUntil } from './wait-until.ts'

/** Where a gateway listens, now or later. */
export interface ProxiedGateway {
  readonly rpcPort: number
  readonly adminPort: number
}

export interface RunningProxy {
  readonly url: string
  close(): Promise<void>
}

/** The program, its arguments, and the shipped file with other gateways. */
interface ProxyKind {
  command(file: string, dir: string): readonly [string, ...string[]]
  configure(shipped: string, port: number, gateways: readonly ProxiedGateway[]): string
}

const kinds = {
  'haproxy.cfg': {
    command: file => ['haproxy', '-f', file],
    configure: (shipped, port, gateways) =>
      replaceServers(
        shipped,
        /^ {4}server gateway-.*\n/gm,
        ({ rpcPort, adminPort }, i) => `    server gateway-${i} 127.0.0.1:${rpcPort} check port ${adminPort}\n`,
        gateways,
      ).replace('bind :8080', `bind 127.0.0.1:${port}`),
  },
  'nginx.conf': {
    command: (file, dir) => ['nginx', '-p', dir, '-c', file, '-g', 'daemon off;'],
    configure: (shipped, port, gateways) => {
      const calls = /^ {4}server gateway-.*fail_timeout=2s;\n/gm
      const sockets = /^ {4}server gateway-.*max_fails=0;\n/gm
      const server =
        (end: string) =>
        ({ rpcPort }: ProxiedGateway) =>
          `    server 127.0.0.1:${rpcPort} ${end};\n`
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
  },
} as const satisfies Readonly<Record<string, ProxyKind>>

type ProxyFile = keyof typeof kinds

/** Of the shipped files those whose program is installed. */
export const installedProxies: readonly ProxyFile[] = (Object.keys(kinds) as ProxyFile[]).filter(
  name => spawnSync(kinds[name].command('', '')[0], ['-v']).status === 0,
)

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

/** Runs a proxy with its shipped file. */
export const startProxy = async (name: ProxyFile, gateways: readonly ProxiedGateway[]): Promise<RunningProxy> => {
  const [dir, port] = [mkdtempSync(join(tmpdir(), 'tollgate-proxy-')), await freePort()]
  const file = join(dir, name)
  writeFileSync(file, kinds[name].configure(readFileSync(join(rootDir, 'deploy/proxies', name), 'utf8'), port, gateways))
  const [program, ...args] = kinds[name].command(file, dir)
  const child = spawn(program, args, { stdio: 'ignore' })
  const killOnExit = () => void child.kill('SIGKILL')
  process.once('exit', killOnExit)
  const url = `http://127.0.0.1:${port}`
  await waitUntil(() =>
    fetch(url).then(
      () => true,
      () => child.exitCode !== null,
    ),
  )
  if (child.exitCode !== null) throw new Error(`${program} exited with ${child.exitCode}`)
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
