import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { networkFile } from '../support/deployment.ts'
import type { Deployment } from '../support/deployment.ts'
import { createPortalDeployment, signInToPortal } from '../support/portal-client.ts'
import type { CaseResult } from './cases.ts'
import { fillStore } from './fill-store.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { RoundValues } from './figures.ts'
import { measureRound, openSession, toScenarioResult } from './measure.ts'
import type { OpenScenario, Round, Scenario } from './measure.ts'
import type { OpenCommand, OpenReply } from './overviews-main.ts'
import { storageAtRequest } from './request-templates.ts'
import { startServer } from './server-process.ts'
import type { BenchServers } from './servers.ts'

const overviewsPerSecond = 20
const callsPerSecond = 500
const connections = 64

/** Targets. */
const maxP99RiseMs = 2
const maxOverviewMs = 300

/** How long the last pages of a round may take. */
const openTimeoutMs = 30_000

interface Browsers {
  /** Opens the page at the constant rate, or once for 0. Resolves with the time of each in ms. */
  open(durationMs: number): Promise<readonly number[]>
  stop(): void
}

/** Cached calls alone, and while browsers open the page Overview, with 10,000 accounts and 90 days of usage in the store. */
export const overviewsBesideCalls = async (servers: BenchServers): Promise<CaseResult> => {
  const node = await startServer({ script: new URL('./bench-node.js', import.meta.url), args: ['0'] })
  const network = { ...networkFile('bench', [node.url]), chainId: 1337, blockTime: '60m' }
  const deployment = createPortalDeployment(node.url, {
    networks: { bench: network },
    env: { TOLLGATE_BENCH_MONITOR: servers.monitors.path },
    nodeOptions: ['--import', new URL('./process-monitor.js', import.meta.url).href],
  })
  let browsers: Browsers | undefined
  try {
    const { key } = await deployment.addCaller('viewed', 'custom')
    await fillStore(join(deployment.dir, '../data'), 'viewed')
    const cookie = await signIn(deployment)
    const gateway = await deployment.start()
    browsers = startBrowsers({ portalUrl: gateway.portal ?? '', cookie })
    const firstMs = await browsers.open(0)
    const scenario: Scenario = {
      name: 'tollgate',
      server: 'gateway',
      path: `v3/${key}`,
      transport: 'http:',
      connections,
      requests: [storageAtRequest],
      loopSampleIntervalMs: 1,
    }
    const server = { url: gateway.rpc, pid: gateway.pid, startupMs: 0, stop: () => gateway.kill() }
    const opened = { scenario, server, session: await openSession(servers, scenario, server), idleRssMB: undefined }
    const { alone, beside, overviewMs } = await measureInTurns(servers, opened, browsers)
    await opened.session.close()
    const p99Rises = beside.map((round, i) => round.p99 - (alone[i]?.p99 ?? 0))
    return {
      rows: [
        toScenarioResult(opened, alone, 'tollgate, alone'),
        toScenarioResult(opened, beside, `tollgate, with ${overviewsPerSecond} Overviews/s`),
      ],
      figures: [
        createFigure('p99 of cached calls rises by', 'ms', spreadOf(p99Rises), maxP99RiseMs),
        createFigure('CPU of an Overview', 'ms', spreadOf(cpuOfOverview(alone, beside))),
        createFigure('the first Overview after a start', 'ms', spreadOf(firstMs), maxOverviewMs),
        createFigure('an Overview beside the calls', 'ms', spreadOf(overviewMs), maxOverviewMs),
      ],
    }
  } finally {
    browsers?.stop()
    await deployment.remove()
    await node.stop()
  }
}

/** The cookies of a session, which outlives the gateway that started it. */
const signIn = async (deployment: Deployment): Promise<string> => {
  const gateway = await deployment.start()
  const client = await signInToPortal(deployment, gateway, 'viewed')
  await gateway.stop()
  return client.cookies()
}

const measureInTurns = async (servers: BenchServers, opened: OpenScenario, browsers: Browsers) => {
  const { rounds, minWarmUpMs, constantRateRoundMs: durationMs } = servers.settings
  const [alone, beside, overviewMs]: [Round[], Round[], number[]] = [[], [], []]
  await opened.session.run({ durationMs: minWarmUpMs })
  await browsers.open(minWarmUpMs)
  for (let i = 0; i < rounds; i += 1) {
    alone.push(await measureRound(servers, opened, { durationMs, callsPerSecond }))
    const [round, times] = await Promise.all([measureRound(servers, opened, { durationMs, callsPerSecond }), browsers.open(durationMs)])
    beside.push(round)
    overviewMs.push(...times)
  }
  return { alone, beside, overviewMs }
}

/** Of the gateway and its process of queries, in ms. */
const cpuOfOverview = (alone: readonly Round[], beside: readonly Round[]): RoundValues =>
  beside.map(({ cpuMicrosPerCall: cpu }, i) => {
    const cpuAlone = alone[i]?.cpuMicrosPerCall
    return cpu === undefined || cpuAlone === undefined ? undefined : ((cpu - cpuAlone) * callsPerSecond) / overviewsPerSecond / 1_000
  })

/** Opens pages in a process of its own. */
const startBrowsers = (page: Pick<OpenCommand, 'portalUrl' | 'cookie'>): Browsers => {
  const child = fork(fileURLToPath(new URL('./overviews-main.js', import.meta.url)))
  return {
    async open(durationMs) {
      const command: OpenCommand = { ...page, perSecond: overviewsPerSecond, durationMs }
      child.send(command)
      const [reply] = (await once(child, 'message', { signal: AbortSignal.timeout(durationMs + openTimeoutMs) })) as [OpenReply]
      if ('error' in reply) throw new Error(reply.error)
      return reply.times
    },
    stop: () => void child.kill(),
  }
}
