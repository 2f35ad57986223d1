import { parseArgs } from 'node:util'

/** Another gateway that already listens. */
export interface Peer {
  readonly name: string
  readonly url: string
  readonly pid?: number
}

/** How much is measured. Times in ms. */
export interface RunSettings {
  readonly rounds: number
  /** Length of a round. */
  readonly roundMs: number
  /** Least length of the round before the first, which is not counted. */
  readonly minWarmUpMs: number
  /** Length of a round in which calls come at a rate: fewer of them, and it is the slowest that are looked at. */
  readonly constantRateRoundMs: number
  /** After this long without a call a process is at rest. */
  readonly idleBeforeReadingMs: number
  readonly coldStarts: number
  readonly idleSockets: number
  /** Cases that have not begun by then are left out. */
  readonly timeLimitMs: number
}

export interface BenchOptions {
  readonly settings: RunSettings
  readonly quick: boolean
  readonly only: readonly string[]
  readonly peers: readonly Peer[]
  readonly workers?: number
  /** Where the node listens that all gateways ask; 0 for any free port. */
  readonly nodePort: number
  readonly json?: string
  readonly svg?: string
}

export const usageText = `npm run bench -- [options]

  --quick                within a minute: fewer cases, fewer and shorter rounds, wider spreads
  --only CASE,...        only these cases
  --rounds N             rounds of each case
  --workers N            workers of the gateway
  --peer NAME=URL[,PID]  measures another gateway that listens already, in the same turns; may stand several times
  --node PORT            where the node listens, so that peers can be told
  --json FILE            everything measured
  --svg FILE             a picture of the ratios`

const fullRunSettings: RunSettings = {
  rounds: 9,
  roundMs: 800,
  minWarmUpMs: 2000,
  constantRateRoundMs: 3000,
  idleBeforeReadingMs: 1000,
  coldStarts: 7,
  idleSockets: 10_000,
  timeLimitMs: 1_800_000,
}
const quickRunSettings: RunSettings = {
  rounds: 3,
  roundMs: 150,
  minWarmUpMs: 300,
  constantRateRoundMs: 600,
  idleBeforeReadingMs: 200,
  coldStarts: 3,
  idleSockets: 2000,
  timeLimitMs: 45_000,
}

/** Throws an Error that says which word is wrong. */
export const parseBenchOptions = (args: readonly string[]): BenchOptions => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rounds: { type: 'string' },
      workers: { type: 'string' },
      peer: { type: 'string', multiple: true, default: [] },
      node: { type: 'string', default: '0' },
      json: { type: 'string' },
      svg: { type: 'string' },
    },
  })
  const { quick, only, rounds, workers, peer, node, json, svg } = values
  const effort = quick ? quickRunSettings : fullRunSettings
  return {
    settings: rounds === undefined ? effort : { ...effort, rounds: parseCount('rounds', rounds) },
    quick,
    only: only.split(',').filter(Boolean),
    peers: peer.map(parsePeer),
    nodePort: node === '0' ? 0 : parseCount('node', node),
    ...(workers === undefined ? {} : { workers: parseCount('workers', workers) }),
    ...(json === undefined ? {} : { json }),
    ...(svg === undefined ? {} : { svg }),
  }
}

const parseCount = (name: string, text: string): number => {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new Error(`--${name} must be a positive number, not "${text}"`)
  return Number(text)
}

const parsePeer = (text: string): Peer => {
  const [, name, url, pid] = /^([^=]+)=(http:[^,]+)(?:,(\d+))?$/.exec(text) ?? []
  if (name === undefined || url === undefined) throw new Error(`--peer must be NAME=URL or NAME=URL,PID, not "${text}"`)
  return { name, url, ...(pid === undefined ? {} : { pid: Number(pid) }) }
}
