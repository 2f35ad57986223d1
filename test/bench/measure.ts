import { setTimeout as pause } from 'node:timers/promises'
import type { Calls } from './calls.ts'
import type { Session } from './load.ts'
import type { Pace } from './load/drive.ts'
import type { Heard } from './probe.ts'
import { familyOf, readUsage, resetPeak } from './proc.ts'
import type { Server } from './processes.ts'
import type { ServerName, Stage } from './stage.ts'

/** One kind of call to one server: what stands in a line of the table. */
export interface Lane {
  readonly name: string
  readonly server: ServerName
  /** Relative to the server's URL. */
  readonly path: string
  readonly transport: 'http:' | 'ws:'
  readonly lines: number
  /** Calls in flight on each line; one, when absent. */
  readonly depth?: number
  readonly calls: Calls
  /** Time in ms between looks at the event loop; 10, when absent, which shows what many calls together do. */
  readonly gap?: number
  /** Calls that the process has answered before its memory at rest is read: code and heap are then in place. */
  readonly first?: Calls
}

/** One turn of a lane. What cannot be seen on this system, or in a process of somebody else, is absent. */
export interface Round {
  readonly callsPerSecond: number
  /** Latency of a message in ms. */
  readonly p50: number
  readonly p99: number
  /** MB of one answer. */
  readonly size: number
  /** CPU of the server's process in us per call. */
  readonly cpu?: number
  /** Peak of its memory, in MB. */
  readonly peak?: number
  /** Delay of its event loop, in ms. */
  readonly loopP99?: number
  readonly loopMax?: number
  /** Share of the time that went into garbage collections. */
  readonly collecting?: number
}

export interface Row {
  readonly name: string
  readonly rounds: readonly Round[]
  /** Memory of the process before these calls, in MB. */
  readonly rest?: number
}

/** A server with connections to it, after its warm-up. */
export interface Opened {
  readonly lane: Lane
  readonly server: Server
  readonly session: Session
  readonly rest: number | undefined
}

/** Told which lane cannot take part, and why. */
export type Skip = (line: string) => void

/** Measures lanes in turn, forth and back: a slow drift of the machine meets all of them alike. */
export const compare = async (stage: Stage, lanes: readonly Lane[], skip: Skip): Promise<readonly Row[]> => {
  const servers = new Map<ServerName, Server>()
  try {
    const names = [...new Set(lanes.map(lane => lane.server))]
    await Promise.all(names.map(async name => servers.set(name, await stage.start(name))))
    for (const lane of lanes) await sendFirst(stage, lane, servers.get(lane.server) as Server)
    await pause(stage.effort.rest)
    const rests = new Map([...servers].map(([name, server]) => [name, readUsage(pidsOf(server))?.rss]))
    const opened: Opened[] = []
    for (const lane of lanes) {
      const one = await openLane(stage, lane, servers.get(lane.server) as Server, skip)
      if (one !== undefined) opened.push({ ...one, rest: rests.get(lane.server) })
    }
    return await takeTurns(stage, opened)
  } finally {
    for (const server of servers.values()) await server.stop()
  }
}

const sendFirst = async (stage: Stage, { first, ...lane }: Lane, server: Server): Promise<void> => {
  if (first === undefined) return
  const session = await openSession(stage, { ...lane, calls: first }, server)
  await warmUp(stage, { ...lane, calls: first }, session)
  await session.close()
}

/** On a slow or busy machine it takes longer to come to as many calls as the compiler needs to see. */
const warmUp = async (stage: Stage, lane: Lane, session: Session): Promise<void> => {
  let [calls, bytes] = [0, 0]
  for (let i = 0; i < 5 && calls < 5000 && bytes < 200e6; i++) {
    const loaded = await session.run({ ms: stage.effort.warmUp, ...paceOf(lane) })
    calls += loaded.messages * (lane.calls.batch ?? 1)
    bytes += loaded.bytes
  }
}

/** A peer that does not give the right answer is left out; a wrong answer of anybody else ends the benchmark. */
const openLane = async (stage: Stage, lane: Lane, server: Server, skip: Skip): Promise<Omit<Opened, 'rest'> | undefined> => {
  try {
    const session = await openSession(stage, lane, server)
    await warmUp(stage, lane, session)
    return { lane, server, session }
  } catch (fault) {
    if (!lane.server.startsWith('peer:')) throw named(lane, fault)
    skip(`left out: ${named(lane, fault).message}`)
    return undefined
  }
}

const named = ({ name }: Lane, fault: unknown): Error => new Error(`${name}: ${(fault as Error).message}`)

export const openSession = (stage: Stage, lane: Lane, server: Server, load = stage.load): Promise<Session> => {
  const url = new URL(lane.path, server.url)
  url.protocol = lane.transport
  return load.open({ url: url.href, lines: lane.lines, message: lane.calls.message, expected: expectedOf(lane.calls) })
}

const expectedOf = ({ message: _sent, ...expected }: Calls) => expected

const takeTurns = async (stage: Stage, opened: readonly Opened[]): Promise<readonly Row[]> => {
  const rounds = new Map<Opened, Round[]>(opened.map(each => [each, []]))
  for (let i = 0; i < stage.effort.rounds; i++) {
    for (const each of i % 2 === 0 ? opened : opened.toReversed()) {
      rounds.get(each)?.push(await measureRound(stage, each, { ms: stage.effort.round, ...paceOf(each.lane) }))
    }
  }
  for (const { session } of opened) await session.close()
  return opened.map(each => rowOf(each, rounds.get(each) ?? []))
}

const paceOf = ({ depth }: Lane): { depth?: number } => (depth === undefined ? {} : { depth })

export const rowOf = ({ lane, rest }: Opened, rounds: readonly Round[], name = lane.name): Row => ({
  name,
  rounds,
  ...(rest === undefined ? {} : { rest }),
})

/** Runs one round and reads what the server's process used for it. */
export const measureRound = async (stage: Stage, { lane, server, session }: Opened, pace: Pace): Promise<Round> => {
  const pids = pidsOf(server)
  resetPeak(pids)
  await stage.probes.begin(pids, lane.gap ?? 10)
  const before = readUsage(pids)
  const loaded = await session.run(pace).catch((fault: unknown) => {
    throw named(lane, fault)
  })
  const after = readUsage(pids)
  const heard = await stage.probes.end(pids)
  const calls = loaded.messages * (lane.calls.batch ?? 1)
  const cpu = before === undefined || after === undefined ? undefined : after.cpu - before.cpu
  return {
    callsPerSecond: calls / loaded.seconds,
    p50: loaded.p50,
    p99: loaded.p99,
    size: loaded.bytes / loaded.messages / 1e6,
    ...(cpu === undefined ? {} : { cpu: cpu / calls, peak: after?.peak ?? 0 }),
    ...(heard.length === 0 ? {} : seenInside(heard, loaded.seconds)),
  }
}

export const pidsOf = ({ pid }: Server): readonly number[] => (pid === undefined ? [] : familyOf(pid))

const seenInside = (heard: readonly Heard[], seconds: number): Partial<Round> => ({
  loopP99: Math.max(...heard.map(each => each.loopP99)),
  loopMax: Math.max(...heard.map(each => each.loopMax)),
  collecting: heard.reduce((sum, each) => sum + each.collecting, 0) / 1000 / seconds,
})
