import { parseArgs } from 'node:util'

/** Another gateway that already listens. */
export interface Peer {
  readonly name: string
  readonly url: string
  readonly pid?: number
}

/** How much is measured. Times in ms. */
export interface Effort {
  readonly rounds: number
  /** Length of a round. */
  readonly round: number
  /** Least length of the round before the first, which is not counted. */
  readonly warmUp: number
  /** Length of a round in which calls come at a rate: fewer of them, and it is the slowest that are looked at. */
  readonly paced: number
  /** After this long without a call a process is at rest. */
  readonly rest: number
  readonly starts: number
  readonly idleSockets: number
  /** Cases that have not begun by then are left out. */
  readonly limit: number
}

export interface Options {
  readonly effort: Effort
  readonly quick: boolean
  readonly only: readonly string[]
  readonly peers: readonly Peer[]
  readonly workers?: number
  /** Where the node listens that all gateways ask; 0 for any free port. */
  readonly node: number
  readonly json?: string
  readonly svg?: string
}

export const usage = `npm run bench -- [options]

  --quick                within a minute: fewer cases, fewer and shorter rounds, wider spreads
  --only CASE,...        only these cases
  --rounds N             rounds of each case
  --workers N            workers of the gateway
  --peer NAME=URL[,PID]  measures another gateway that listens already, in the same turns; may stand several times
  --node PORT            where the node listens, so that peers can be told
  --json FILE            everything measured
  --svg FILE             a picture of the ratios`

const thorough: Effort = {
  rounds: 9,
  round: 800,
  warmUp: 2000,
  paced: 3000,
  rest: 1000,
  starts: 7,
  idleSockets: 10_000,
  limit: 1_800_000,
}
const hasty: Effort = {
  rounds: 3,
  round: 150,
  warmUp: 300,
  paced: 600,
  rest: 200,
  starts: 3,
  idleSockets: 2000,
  limit: 45_000,
}

/** Throws an Error that says which word is wrong. */
export const readOptions = (args: readonly string[]): Options => {
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
  const effort = quick ? hasty : thorough
  return {
    effort: rounds === undefined ? effort : { ...effort, rounds: count('rounds', rounds) },
    quick,
    only: only.split(',').filter(Boolean),
    peers: peer.map(readPeer),
    node: node === '0' ? 0 : count('node', node),
    ...(workers === undefined ? {} : { workers: count('workers', workers) }),
    ...(json === undefined ? {} : { json }),
    ...(svg === undefined ? {} : { svg }),
  }
}

const count = (name: string, text: string): number => {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new Error(`--${name} must be a positive number, not "${text}"`)
  return Number(text)
}

const readPeer = (text: string): Peer => {
  const [, name, url, pid] = /^([^=]+)=(http:[^,]+)(?:,(\d+))?$/.exec(text) ?? []
  if (name === undefined || url === undefined) throw new Error(`--peer must be NAME=URL or NAME=URL,PID, not "${text}"`)
  return { name, url, ...(pid === undefined ? {} : { pid: Number(pid) }) }
}
