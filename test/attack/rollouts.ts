import { setTimeout } from 'node:timers/promises'
import { createDeployment, mainPath, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { freePort } from '../support/free-port.ts'
import { proxies, startProxy } from '../support/proxy.ts'
import type { ProxyFile, RunningProxy } from '../support/proxy.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, Figure } from './attack.ts'
import { CreditCallers, balanceOf } from './credit-callers.ts'
import type { CreditAccount } from './credit-callers.ts'
import { openBalancer } from './restarts.ts'

/** The program of another build, which the gateways run before. This build unless set. */
const oldProgram = process.env['TOLLGATE_OLD_MAIN'] ?? mainPath

/** The short run has one proxy, any longer one each that is installed; with `--scale 4` and more there are ten gateways. */
const gatewayCounts = { short: 3, long: 10 } as const
const minLongScale = 4

/** A quarter is on WebSockets, and a quarter each calls by viem and ethers. */
const clients = ['webSocket', 'viem', undefined, 'ethers'] as const

/** A tenth of the accounts use up their balance during the run. */
const accounts: Readonly<Record<string, CreditAccount>> = Object.fromEntries(
  Array.from({ length: 20 }, (_, i): [string, CreditAccount] => [
    `account${i}`,
    { dailyCredits: i % 10 === 0 ? 12_000 : 3_000_000, callers: 1, client: clients[i % clients.length] },
  ]),
)
const plans = Object.fromEntries(Object.entries(accounts).map(([name, { dailyCredits }]) => [name, { dailyCredits }]))

/** 20 callers make about 200 calls a second. */
const pauseBetweenCallsMs = 90

/** A proxy notices within two checks that a gateway stops, and within one that it is there. */
const [drain, maxCheckMs] = [{ grace: '5s', timeout: '10s' }, 3_000]

const maxLoggedFailures = 20

interface RolloutResult {
  readonly calls: number
  readonly lost: number
  readonly servedOver: number
  readonly usedOver: number
  readonly uncountedCalls: number
  readonly forfeited: number
  readonly wrong: number
  readonly reconnects: number
  readonly brokenWebSockets: number
}

interface RolloutOptions {
  readonly gatewayCount: number
  readonly proxyFile: ProxyFile | undefined
  readonly hashesKeys: boolean
  log(line: string): void
}

/** Gateways are replaced one after the other behind a proxy; then one is added, and one removed. No caller may notice. */
const runRollout = async ({ gatewayCount, proxyFile, hashesKeys, log }: RolloutOptions): Promise<RolloutResult> => {
  const redis = await startRedisServer('--appendonly', 'yes')
  const node = await startFakeNode({
    eth_blockNumber: { result: '0x10' },
    eth_getBalance: ({ params }) => ({ result: balanceOf(String(params[0])) }),
  })
  const networks = { testnet: networkFile('testnet', [node.url], { cache: false }) }
  const gateway = { drain, log: 'warn', watch: false, plans, store: redis.url }
  const before = createDeployment({ gateway, networks, program: oldProgram })
  const after = createDeployment({ gateway, networks })
  const ports = { rpcPort: await freePort(), adminPort: await freePort() }
  const places = Array.from({ length: gatewayCount + 1 }, (_, i) => ({ host: `127.0.2.${i + 1}`, ...ports }))
  /** By their places. */
  const gateways: GatewayProcess[] = []
  const start = async (deployment: typeof after, i: number): Promise<void> => {
    const [host, { rpcPort, adminPort }] = [places[i]?.host ?? '', ports]
    deployment.writeGateway({ ...gateway, listen: { rpc: `${host}:${rpcPort}`, admin: `${host}:${adminPort}` } })
    gateways[i] = await deployment.start()
    await setTimeout(maxCheckMs)
  }
  const stop = async (i: number): Promise<void> => {
    if ((await gateways[i]?.stop()) !== 0) throw new Error('a gateway did not end in order')
  }
  const startedAt = performance.now()
  const logPhase = (phase: string): void =>
    log(
      `${((performance.now() - startedAt) / 1_000).toFixed(0)} s: ${phase}; ${callers.results} results, ${callers.failedAt.length} calls lost`,
    )
  let proxy: RunningProxy | undefined
  const callers = new CreditCallers({
    deployment: after,
    accounts,
    pauseMs: pauseBetweenCallsMs,
    urlOf: key => `${proxy?.url}/v3/${key}`,
    webSocketUrlOf: key => `${proxy?.url}/ws/v3/${key}`,
    log,
  })
  try {
    await callers.addAccounts()
    for (let i = 0; i < gatewayCount; i += 1) await start(before, i)
    proxy = proxyFile === undefined ? await openPlainProxy(gateways) : await startProxy(proxyFile, places, hashesKeys)
    callers.start()
    logPhase(`${gatewayCount} gateways have started`)
    for (let i = 0; i < gatewayCount; i += 1) {
      await stop(i)
      await start(after, i)
      logPhase(`gateway ${i + 1} of ${gatewayCount} is replaced`)
    }
    await start(after, gatewayCount)
    logPhase('one is added')
    await stop(0)
    await setTimeout(maxCheckMs)
    logPhase('one is removed')
    await callers.stop()
    for (const failure of callers.failures.slice(0, maxLoggedFailures)) log(`lost at ${failure}`)
    for (let i = 1; i < gateways.length; i += 1) await stop(i)
    const summaries = await callers.audit()
    logPhase('all have stopped, and the audit has ended')
    const { reconnects, broken } = callers.webSocketCounts
    const sum = (of: (each: (typeof summaries)[number]) => number) => summaries.reduce((total, each) => total + of(each), 0)
    return {
      calls: callers.results + callers.failedAt.length,
      lost: callers.failedAt.length,
      servedOver: sum(each => each.servedOver),
      usedOver: sum(each => each.usedOver),
      uncountedCalls: sum(each => each.uncountedCalls),
      forfeited: sum(each => each.forfeited),
      wrong: callers.found.wrong + callers.found.crossed + sum(each => each.faults.length),
      reconnects,
      brokenWebSockets: broken,
    }
  } finally {
    await callers.stop()
    await proxy?.close()
    await Promise.all([before.remove(), after.remove()])
    await node.stop()
    await redis.remove()
  }
}

const openPlainProxy = async (gateways: readonly GatewayProcess[]): Promise<RunningProxy> => {
  const { url, close } = await openBalancer(gateways)
  return { url, close: async () => close() }
}

export const rollouts: Attack = {
  name: 'rollouts',
  summary: 'on Linux: gateways on one Redis are replaced one by one behind a proxy with its shipped file; one is added, one removed',
  async run({ scale, cases = '', log }) {
    if (skipWithoutRedis !== false) {
      log(`not run: ${skipWithoutRedis}`)
      return []
    }
    if (process.platform !== 'linux') {
      log('not run: gateways listen on 127.0.2.1 and so on, as Caddy checks all at one port, and only Linux has these addresses')
      return []
    }
    const { installed, missing } = proxies()
    for (const { file, program } of missing) log(`${file}: not run: ${program} is not installed`)
    const count = scale >= minLongScale ? gatewayCounts.long : gatewayCounts.short
    const figures: Figure[] = []
    const proxyFiles = installed.length === 0 ? [undefined] : scale > 1 ? installed : installed.slice(0, 1)
    const runs = proxyFiles.flatMap(proxyFile =>
      (proxyFile !== undefined && scale > 1 ? [false, true] : [false]).map(hashesKeys => ({ proxyFile, hashesKeys })),
    )
    const namedRuns = runs.map(run => ({ ...run, name: `${run.proxyFile ?? 'TCP balancer'}${run.hashesKeys ? ', keys hashed' : ''}` }))
    for (const { name, proxyFile, hashesKeys } of namedRuns.filter(run => run.name.includes(cases))) {
      const result = await runRollout({ gatewayCount: count, proxyFile, hashesKeys, log: line => log(`${name}: ${line}`) })
      figures.push(
        { name: `${name}: gateways replaced`, value: count },
        { name: `${name}: calls`, value: result.calls },
        { name: `${name}: WebSockets opened again`, value: result.reconnects },
        mustBeZero(`${name}: calls lost`, result.lost),
        mustBeZero(`${name}: WebSockets that closed with another code than 1001`, result.brokenWebSockets),
        mustBeZero(`${name}: credits served over a balance`, result.servedOver),
        mustBeZero(`${name}: credits charged and not served`, result.usedOver),
        mustBeZero(`${name}: credits forfeited`, result.forfeited),
        mustBeZero(`${name}: calls that are missing in the usage counts`, result.uncountedCalls),
        mustBeZero(`${name}: wrong results, and differences in the audit`, result.wrong),
      )
    }
    return figures
  },
}
