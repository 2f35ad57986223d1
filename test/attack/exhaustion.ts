import { setTimeout as sleep } from 'node:timers/promises'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { residentBytesOf } from '../support/process-memory.ts'
import { waitUntil } from '../support/wait-until.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, AttackOptions, Figure } from './attack.ts'
import type { BystanderReport, BystanderTask } from './exhaustion-bystander.ts'
import type { AttackerReport, AttackerTask, ExhaustionName } from './exhaustion-attacker.ts'
import {
  connectionAttacks,
  eventAttack,
  exhaustionBlockMs,
  exhaustionNames,
  maxAttackedConnections,
  startExhaustionNode,
} from './exhaustion-node.ts'
import { runTaskProcess } from './task-process.ts'

/** What one attack on the memory or the time of a gateway came to, and how a caller of another account fared meanwhile. */
export interface ExhaustionResult {
  readonly name: string
  readonly peakRssMiB: number
  readonly restRssMiB: number
  /** `limits.inFlight` and `memory` of the gateway: the peak may be above the rest by so much. */
  readonly limitMiB: number
  readonly bystanderP99Ms: number
  /** The same with the waits for a CPU. */
  readonly bystanderElapsedP99Ms: number
  /** Just before the attack. */
  readonly bystanderP99AloneMs: number
  /** Calls of the bystander that were not answered. */
  readonly failed: number
  /** From a block to its event at the bystander, where it has a subscription: before the attack, and during it. */
  readonly events?: { readonly aloneMs: number; readonly p99Ms: number }
  /** By the attacker. */
  readonly sentKiB: number
  /** Of the gateway, during the attack. */
  readonly loopDelayP99Ms: number
  readonly cpuSeconds: number
}

const inFlightMiB = 128
const memoryMiB = 64
const aloneMs = 2_000
const attackMs = 4_000

/**
 * Of a bystander: what others do on the machine at the same time may spoil one try, and a gateway that is not fair spoils all. On two cores with
 * a load of 16, the p99 was 30 to 130 ms in most tries and 480 in some.
 */
const maxTries = 4

/**
 * How long calls of a bystander may take: it waits for some turns of the event loop, each as long as the work that an attacker is given in it. On two
 * cores with a load of 10 to 13, each of the 11 attacks was within it; the closest was at 98 % of it, six were below half.
 */
const maxBystanderMs = ({ bystanderP99AloneMs }: ExhaustionResult): number => 3 * bystanderP99AloneMs + 50

/** How much later than without an attacker events of a bystander may be. Where the feed waits for the attacker, they are later with each block. */
const maxEventMs = 500

/**
 * Attacks a gateway with what takes its memory: bodies, frames, calls and answers that are not read, and a flood of calls; and with what takes
 * its connections. The attacker and the bystander have a process and an address each, as they are on different machines. The attacker has the
 * lowest priority, so that the bystander waits for the gateway alone.
 */
export const runExhaustion = async (
  { seed, scale, log }: AttackOptions,
  names: readonly ExhaustionName[] = exhaustionNames,
): Promise<readonly ExhaustionResult[]> => {
  const node = await startExhaustionNode()
  const deployment = createDeployment({
    networks: {
      net: {
        ...networkFile('net', [node.url], { failover: { upstreams: [{ name: 'own', url: node.url, concurrency: 10_000 }] } }),
        blockTime: `${exhaustionBlockMs}ms`,
      },
    },
  })
  try {
    for (const account of ['attacker', 'bystander']) await deployment.addAccount(account, 'custom')
    const [attacker, bystander] = [await deployment.addKey('attacker'), await deployment.addKey('bystander')]
    const results: ExhaustionResult[] = []
    for (const name of names) {
      const takesConnections = connectionAttacks.has(name)
      const limits = { inFlight: `${inFlightMiB}MiB`, ...(takesConnections && { connections: maxAttackedConnections }) }
      deployment.writeGateway({ memory: `${memoryMiB}MiB`, limits, log: 'error' })
      const setup = { name, takesConnections, attackerKey: attacker.key, bystanderKey: bystander.key, seed, scale }
      let result: ExhaustionResult | undefined
      for (let tries = 0; tries < maxTries && (result === undefined || isUnfair(result)); tries += 1) {
        const gateway = await deployment.start()
        result = mergeTries(result, await attackOnce(gateway, setup, log))
        await gateway.kill()
      }
      if (result !== undefined) results.push(result)
    }
    return results
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

const isUnfair = (result: ExhaustionResult): boolean =>
  !(result.bystanderP99Ms <= maxBystanderMs(result)) ||
  (result.events !== undefined && !(result.events.p99Ms <= result.events.aloneMs + maxEventMs))

/** The try in which the bystander fared better; no try may take too much memory, or fail calls. */
const mergeTries = (one: ExhaustionResult | undefined, other: ExhaustionResult): ExhaustionResult => {
  if (one === undefined) return other
  const fairer = one.bystanderP99Ms / maxBystanderMs(one) < other.bystanderP99Ms / maxBystanderMs(other) ? one : other
  const larger = one.peakRssMiB - one.restRssMiB > other.peakRssMiB - other.restRssMiB ? one : other
  return { ...fairer, peakRssMiB: larger.peakRssMiB, restRssMiB: larger.restRssMiB, failed: one.failed + other.failed }
}

interface AttackSetup {
  readonly name: ExhaustionName
  readonly takesConnections: boolean
  readonly attackerKey: string
  readonly bystanderKey: string
  readonly seed: number
  readonly scale: number
}

const attackOnce = async (gateway: GatewayProcess, setup: AttackSetup, log: (line: string) => void): Promise<ExhaustionResult> => {
  const { name, takesConnections, attackerKey, bystanderKey, seed, scale } = setup
  const hasEvents = name === eventAttack
  const bystand = (durationMs: number) =>
    runTaskProcess<BystanderTask, BystanderReport>('exhaustion-bystander', {
      url: gateway.http(bystanderKey),
      gatewayPid: gateway.pid,
      ...(hasEvents && { ws: gateway.ws(bystanderKey) }),
      opensConnections: takesConnections,
      durationMs,
      seed,
    })
  await bystand(500) // code that is not compiled yet is slow
  const alone = await bystand(aloneMs)
  const rest = residentBytesOf(gateway.pid)
  const peak = samplePeak(gateway.pid)
  const durationMs = attackMs * scale * (takesConnections || hasEvents ? 2 : 1)
  const task: AttackerTask = { name, http: gateway.http(attackerKey), ws: gateway.ws(attackerKey), durationMs, seed }
  const before = await readProcessLoad(gateway)
  const [beside, { sentBytes }] = await Promise.all([
    (takesConnections ? whenConnectionsAreTaken(gateway) : sleep(durationMs / 8)).then(() => bystand((durationMs * 3) / 4)),
    runTaskProcess<AttackerTask, AttackerReport>('exhaustion-attacker', task, true),
  ])
  const after = await readProcessLoad(gateway)
  if (beside.firstFailure !== undefined) log(`${name}: the first call of the bystander that failed: ${beside.firstFailure}`)
  return {
    name,
    peakRssMiB: toMiB(peak.stop()),
    restRssMiB: toMiB(rest),
    limitMiB: inFlightMiB + memoryMiB,
    bystanderP99Ms: beside.p99Ms,
    bystanderElapsedP99Ms: beside.elapsedP99Ms,
    bystanderP99AloneMs: alone.p99Ms,
    failed: beside.failed,
    ...(hasEvents && { events: { aloneMs: alone.eventP99Ms, p99Ms: beside.eventP99Ms } }),
    sentKiB: sentBytes / 1024,
    loopDelayP99Ms: after.loopDelayP99Ms,
    cpuSeconds: after.cpuSeconds - before.cpuSeconds,
  }
}

/** Once the attacker has what a single one gets: without a share that is all, soon after. Rejects if it has not in time. */
const whenConnectionsAreTaken = (gateway: GatewayProcess): Promise<void> =>
  waitUntil(async () => (await readMetrics(gateway))('tollgate_connections') >= maxAttackedConnections / 2)

const readMetrics = async ({ admin }: GatewayProcess): Promise<(name: string) => number> => {
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  return name => Number(new RegExp(`^${name} (.+)`, 'm').exec(metrics)?.[1])
}

const toMiB = (bytes: number): number => Math.round(bytes / 2 ** 20)

/** The greatest resident set of a process, until stop(). */
const samplePeak = (pid: number): { stop(): number } => {
  let peak = 0
  const sample = () => {
    peak = Math.max(peak, residentBytesOf(pid))
  }
  const timer = setInterval(sample, 50)
  return {
    stop() {
      clearInterval(timer)
      sample()
      return peak
    },
  }
}

/** What the gateway says of itself, since the last time that it was asked. */
interface ProcessLoad {
  readonly loopDelayP99Ms: number
  readonly cpuSeconds: number
}

const readProcessLoad = async (gateway: GatewayProcess): Promise<ProcessLoad> => {
  const metricOf = await readMetrics(gateway)
  return { loopDelayP99Ms: 1_000 * metricOf('nodejs_eventloop_lag_p99_seconds'), cpuSeconds: metricOf('process_cpu_seconds_total') }
}

export const exhaustion: Attack = {
  name: 'exhaustion',
  summary: 'one account that takes memory and time; a bystander of another account beside it',
  async run(options) {
    return (await runExhaustion(options)).flatMap(figuresOf)
  },
}

/** V8 and the allocator keep some of what has been freed: the resident set is so many times what is held, at most. */
const residentPerHeld = 1.25

const figuresOf = (result: ExhaustionResult): readonly Figure[] => [
  {
    name: `${result.name}: memory above rest`,
    value: result.peakRssMiB - result.restRssMiB,
    unit: 'MiB',
    limit: residentPerHeld * result.limitMiB,
  },
  { name: `${result.name}: p99 of the bystander alone`, value: result.bystanderP99AloneMs, unit: 'ms' },
  { name: `${result.name}: p99 of the bystander`, value: result.bystanderP99Ms, unit: 'ms', limit: Math.round(maxBystanderMs(result)) },
  { name: `${result.name}: the same with waits for a CPU`, value: result.bystanderElapsedP99Ms, unit: 'ms' },
  mustBeZero(`${result.name}: calls of the bystander that failed`, result.failed),
  ...(result.events === undefined
    ? []
    : [
        { name: `${result.name}: p99 of an event alone`, value: result.events.aloneMs, unit: 'ms' },
        { name: `${result.name}: p99 of an event`, value: result.events.p99Ms, unit: 'ms', limit: result.events.aloneMs + maxEventMs },
      ]),
  // What the attacker was able to do, and what that took.
  { name: `${result.name}: sent by the attacker`, value: result.sentKiB, unit: 'KiB' },
  { name: `${result.name}: p99 of the event loop delay`, value: result.loopDelayP99Ms, unit: 'ms' },
  { name: `${result.name}: CPU time of the gateway`, value: result.cpuSeconds, unit: 's' },
]
