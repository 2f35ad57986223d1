import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { networkFile } from '../support/deployment.ts'
import type { Deployment } from '../support/deployment.ts'
import { createPortalDeployment, signInToPortal } from '../support/portal-client.ts'
import type { CaseResult } from './cases.ts'
import { fillStore } from './fill-store.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { RoundValues } from './figures.ts'
import { measureRound, openSession, toScenarioResult } from './measure.ts'
import type { OpenScenario, Round, Scenario } from './measure.ts'
import { storageAtRequest } from './request-templates.ts'
import { startServer } from './server-process.ts'
import type { BenchServers } from './servers.ts'

const overviewsPerSecond = 20
const callsPerSecond = 500
const connections = 64

/** Targets. */
const maxP99RiseMs = 2
const maxOverviewMs = 300

/** Cached calls alone, and while browsers open the page Overview, with 10,000 accounts and 90 days of usage in the store. */
export const overviewsBesideCalls = async (servers: BenchServers): Promise<CaseResult> => {
  const node = await startServer({ script: new URL('./bench-node.js', import.meta.url), args: ['0'] })
  const network = { ...networkFile('bench', [node.url]), chainId: 1337, blockTime: '60m' }
  const deployment = createPortalDeployment(node.url, {
    networks: { bench: network },
    env: { TOLLGATE_BENCH_MONITOR: servers.monitors.path },
    nodeOptions: ['--import', new URL('./process-monitor.js', import.meta.url).href],
  })
  try {
    await deployment.addAccount('viewed', 'custom')
    const { key } = await deployment.addKey('viewed')
    await fillStore(join(deployment.dir, '../data'), 'viewed')
    const cookie = await signIn(deployment)
    const gateway = await deployment.start()
    const openPage = () => openOverview(gateway.portal ?? '', cookie)
    const firstMs = await openPage()
    const scenario: Scenario = {
      name: 'tollgate',
      server: 'gateway',
      path: `v3/${key}`,
      transport: 'http:',
      connections,
      request: storageAtRequest,
      loopSampleIntervalMs: 1,
    }
    const server = { url: gateway.rpc, pid: gateway.pid, startupMs: 0, stop: () => gateway.kill() }
    const opened = { scenario, server, session: await openSession(servers, scenario, server), idleRssMB: undefined }
    const { alone, beside, overviewMs } = await measureInTurns(servers, opened, openPage)
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
        createFigure('the first Overview after a start', 'ms', spreadOf([firstMs]), maxOverviewMs),
        createFigure('an Overview beside the calls', 'ms', spreadOf(overviewMs), maxOverviewMs),
      ],
    }
  } finally {
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

const measureInTurns = async (servers: BenchServers, opened: OpenScenario, openPage: () => Promise<number>) => {
  const { rounds, minWarmUpMs, constantRateRoundMs: durationMs } = servers.settings
  const [alone, beside, overviewMs]: [Round[], Round[], number[]] = [[], [], []]
  await opened.session.run({ durationMs: minWarmUpMs })
  await openRepeatedly(minWarmUpMs, openPage)
  for (let i = 0; i < rounds; i += 1) {
    alone.push(await measureRound(servers, opened, { durationMs, callsPerSecond }))
    const [round, times] = await Promise.all([
      measureRound(servers, opened, { durationMs, callsPerSecond }),
      openRepeatedly(durationMs, openPage),
    ])
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

/** At the constant rate, however long each takes. */
const openRepeatedly = async (durationMs: number, openPage: () => Promise<number>): Promise<readonly number[]> => {
  const opened: Promise<number>[] = []
  for (const endMs = performance.now() + durationMs; performance.now() < endMs; ) {
    opened.push(openPage())
    await pause(1_000 / overviewsPerSecond)
  }
  return Promise.all(opened)
}

/** What a browser requests that opens the page for somebody who is signed in, until the figures have arrived. Resolves with the time in ms. */
const openOverview = async (portalUrl: string, cookie: string): Promise<number> => {
  const startMs = performance.now()
  const get = async (path: string): Promise<string> => {
    const response = await fetch(`${portalUrl}${path}`, { headers: { cookie } })
    if (response.status !== 200) throw new Error(`${path} was answered with ${response.status}`)
    return response.text()
  }
  const html = await get('/')
  await Promise.all([...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => get(path ?? '')))
  await get('/api/v1/session')
  await readFirstFigures(`${portalUrl}/api/v1/events`, cookie)
  return performance.now() - startMs
}

const readFirstFigures = async (url: string, cookie: string): Promise<void> => {
  const { body } = await fetch(url, { headers: { cookie } })
  let received = ''
  for await (const bytes of body ?? []) {
    received += Buffer.from(bytes).toString()
    if (/^event: account\ndata: .*"hours"/m.test(received)) return
  }
  throw new Error('the stream of figures ended')
}
