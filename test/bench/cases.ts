import { smallBesideBig } from './beside.ts'
import { badKey, badParams, batch, blockNumber, freshStorageAt, logs, storageAt, variedStorageAt, words } from './calls.ts'
import type { Calls } from './calls.ts'
import { cpuRatio, longestBlock, memoryPerAnswer } from './figures.ts'
import type { Figure } from './figures.ts'
import { idleSockets } from './idle.ts'
import { ledgerCost } from './ledger.ts'
import { compare } from './measure.ts'
import type { Lane, Row, Skip } from './measure.ts'
import type { Baseline, Stage } from './stage.ts'
import { coldStart } from './start.ts'

export interface Outcome {
  readonly rows: readonly Row[]
  readonly figures: readonly Figure[]
}

export interface Case {
  readonly name: string
  readonly title: string
  /** So much like another case that `--quick` leaves it out, unless it is asked for. */
  readonly twin?: true
  run(stage: Stage, skip: Skip): Promise<Outcome>
}

type Run = Case['run']

/** What is the same in most lanes. */
const http = { path: '', transport: 'http:', lines: 32 } as const

const names: Readonly<Record<Baseline, string>> = {
  http: 'bare node:http',
  koa: 'Koa',
  proxy: 'parsing proxy',
  pipe: 'piping proxy',
  ws: 'bare ws',
}

const own = ({ keys }: Stage, calls: Calls): Lane => ({ ...http, name: 'tollgate', server: 'gateway', path: `v3/${keys.good}`, calls })

const beside = (server: Baseline, calls: Calls): Lane => ({ ...http, name: names[server], server, calls })

/** Peers get the same calls; what their node answers is their affair. */
const peers = ({ peers }: Stage, { calls: { message, batch }, first: _first, ...lane }: Lane): readonly Lane[] =>
  peers.map(({ name }) => ({
    ...lane,
    name,
    server: `peer:${name}`,
    path: '',
    calls: { message, status: 200, ...(batch === undefined ? {} : { batch }) },
  }))

const cached =
  (calls: Calls): Run =>
  async (stage, skip) => {
    const gateway = own(stage, calls)
    const others = [beside('http', calls), beside('koa', calls), ...peers(stage, gateway)]
    const rows = await compare(stage, [gateway, ...others], skip)
    return { rows, figures: [cpuRatio(rows, 'tollgate', names.http, 1.8), cpuRatio(rows, names.koa, names.http)] }
  }

/** Calls that are alike the gateway reads and judges once; here it must look for what it has found out before. */
const varied: Run = async (stage, skip) => {
  const gateway = own(stage, variedStorageAt)
  const rows = await compare(stage, [gateway, beside('http', variedStorageAt), ...peers(stage, gateway)], skip)
  return { rows, figures: [cpuRatio(rows, 'tollgate', names.http)] }
}

const uncached: Run = async (stage, skip) => {
  const gateway = own(stage, freshStorageAt)
  const rows = await compare(stage, [gateway, beside('proxy', freshStorageAt), ...peers(stage, gateway)], skip)
  return { rows, figures: [cpuRatio(rows, 'tollgate', names.proxy, 1.4)] }
}

const overSockets =
  (lines: number, depth: number): Run =>
  async (stage, skip) => {
    const socket = { transport: 'ws:', lines, depth } as const
    const gateway = { ...own(stage, storageAt), ...socket, path: `ws/v3/${stage.keys.good}` }
    const others = [{ ...beside('ws', storageAt), ...socket }, ...peers(stage, gateway)]
    const rows = await compare(stage, [gateway, ...others], skip)
    return { rows, figures: [cpuRatio(rows, 'tollgate', names.ws, 1.6)] }
  }

const inBatches: Run = async (stage, skip) => {
  const lanes = {
    batch: { ...own(stage, batch), name: 'tollgate, batch of 100' },
    single: { ...own(stage, storageAt), name: 'tollgate, one call' },
    bare: { ...beside('http', batch), name: `${names.http}, batch of 100` },
  }
  const rows = await compare(stage, [...Object.values(lanes), ...peers(stage, lanes.batch)], skip)
  return {
    rows,
    figures: [cpuRatio(rows, lanes.batch.name, lanes.single.name, 0.25), cpuRatio(rows, lanes.batch.name, lanes.bare.name)],
  }
}

/** As many connections to each process: one that has fewer finds fewer calls at once, and each costs a little more, whoever it is. */
const inTwoWorkers: Run = async (stage, skip) => {
  const one = { ...own(stage, storageAt), name: 'tollgate, one process' }
  const two = { ...one, name: 'tollgate, two workers', server: 'crew' as const, lines: 2 * one.lines }
  const rows = await compare(stage, [one, two], skip)
  return { rows, figures: [cpuRatio(rows, two.name, one.name, 1.1)] }
}

/** One answer at a time, so that memory above rest is what one answer takes. */
const bigAnswers =
  (words: number): Run =>
  async (stage, skip) => {
    const single = { lines: 1, first: storageAt, gap: 1 } as const
    const gateway = { ...own(stage, logs(words)), ...single }
    const others = [{ ...beside('pipe', logs(words)), ...single }, ...peers(stage, gateway)]
    const rows = await compare(stage, [gateway, ...others], skip)
    return {
      rows,
      figures: [
        cpuRatio(rows, 'tollgate', names.pipe, 2),
        longestBlock(rows, 'tollgate', 8),
        longestBlock(rows, names.pipe),
        memoryPerAnswer(rows, 'tollgate', 2.5),
        memoryPerAnswer(rows, names.pipe),
      ],
    }
  }

/** Refusing must not cost more than answering, or refused calls are a way to hurt those who pay. */
const refusals: Run = async (stage, skip) => {
  const { unknown, mistyped } = stage.keys
  const answered = { ...own(stage, storageAt), name: 'answered from the cache' }
  const refused = [
    { ...own(stage, badKey), name: 'mistyped key', path: `v3/${mistyped}` },
    { ...own(stage, badKey), name: 'unknown key', path: `v3/${unknown}` },
    { ...own(stage, badParams), name: 'bad parameters' },
  ]
  const rows = await compare(stage, [answered, ...refused], skip)
  return { rows, figures: refused.map(({ name }) => cpuRatio(rows, name, answered.name, 1)) }
}

/** Everything that is measured, in the order of the table. */
export const cases: readonly Case[] = [
  { name: 'cached', title: 'HTTP, eth_getStorageAt from the cache', run: cached(storageAt) },
  { name: 'block-number', title: 'HTTP, eth_blockNumber from the cache', twin: true, run: cached(blockNumber) },
  { name: 'varied', title: 'HTTP, eth_getStorageAt from the cache, 2,000 slots in turn', twin: true, run: varied },
  { name: 'uncached', title: 'HTTP, eth_getStorageAt from the node', run: uncached },
  { name: 'batch', title: 'HTTP, batches of 100 from the cache', run: inBatches },
  { name: 'ws-1', title: 'WebSocket, from the cache, 1 socket, 32 calls at once', run: overSockets(1, 32) },
  { name: 'ws-100', title: 'WebSocket, from the cache, 100 sockets', twin: true, run: overSockets(100, 1) },
  { name: 'ws-1000', title: 'WebSocket, from the cache, 1,000 sockets', run: overSockets(1000, 1) },
  { name: 'logs', title: 'HTTP, eth_getLogs, 10,000 logs in 6 MB', run: bigAnswers(words.small) },
  { name: 'large', title: 'HTTP, eth_getLogs, 10,000 logs in 21 MB', twin: true, run: bigAnswers(words.large) },
  { name: 'beside', title: 'HTTP, 500 small calls/s while 6 MB answers come at 5/s', run: smallBesideBig },
  { name: 'refused', title: 'HTTP, refused calls', run: refusals },
  { name: 'workers', title: 'HTTP, from the cache, two workers', twin: true, run: inTwoWorkers },
  { name: 'ledger', title: 'The ledger', run: ledgerCost },
  { name: 'sockets', title: 'Idle WebSockets', run: idleSockets },
  { name: 'start', title: 'Start and rest', run: coldStart },
]
