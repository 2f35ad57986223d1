import { parseArgs } from 'node:util'

/** Another gateway, which is already running. */
export interface Peer {
  readonly name: string
  readonly url: string
  readonly pid?: number
}

/** An external plugin whose cost is measured. */
export interface BenchPlugin {
  readonly file: string
  /** Its options, as YAML. */
  readonly options: string
  /** The step below which it stands. */
  readonly below: string
}

/** The extent of a run. */
export interface RunSettings {
  /** Rounds of each scenario. */
  readonly rounds: number
  /** Length of a round. */
  readonly roundMs: number
  /** Calls for this time come before each round, and are not counted. */
  readonly leadMs?: number
  /** Minimum length of the warm-up, which is not counted. */
  readonly minWarmUpMs: number
  /** Length of a round with a constant rate of calls: it has fewer calls, of which the slowest count. */
  readonly constantRateRoundMs: number
  /** How long a process is without calls before its idle memory is read. */
  readonly idleBeforeReadingMs: number
  readonly coldStarts: number
  readonly idleSockets: number
  /** Accounts in a Redis, at most. */
  readonly maxStoreAccounts: number
  /** Cases that have not started by then are skipped. */
  readonly timeLimitMs: number
}

export interface BenchOptions {
  readonly settings: RunSettings
  readonly quick: boolean
  readonly only: readonly string[]
  readonly peers: readonly Peer[]
  readonly workers?: number
  /** Another commit of the gateway that is measured in the same turns. */
  readonly compare?: string
  /** A plugin that a second gateway has, which is measured in the same turns. */
  readonly plugin?: BenchPlugin
  /** Port of the node that is the upstream of all gateways; 0 is any free port. */
  readonly nodePort: number
  readonly json?: string
  readonly svg?: string
}

export const usageText = `npm run bench -- [options]

  --quick                takes a minute: fewer cases, fewer and shorter rounds, wider spreads
  --only CASE,...        runs only these cases
  --rounds N             number of rounds of each scenario
  --workers N            number of workers of the gateway
  --peer NAME=URL[,PID]  also measures a gateway that is already running; may be repeated
  --compare REV          also builds and measures another commit of the gateway
  --plugin FILE          also measures the gateway with this plugin: what it costs a call; cases cached and uncached unless --only
  --with OPTIONS         with --plugin: its options, as in a network file; { } if absent
  --below STEP           with --plugin: the step that it stands below; params if absent, which is above the cache
  --node PORT            port of the node, for the configuration of peers; any free port if absent
  --json FILE            writes all measurements
  --svg FILE             draws the ratios`

const fullRunSettings: RunSettings = {
  rounds: 9,
  roundMs: 800,
  minWarmUpMs: 2000,
  constantRateRoundMs: 3000,
  idleBeforeReadingMs: 1000,
  coldStarts: 7,
  idleSockets: 10_000,
  maxStoreAccounts: 1_000_000,
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
  maxStoreAccounts: 10_000,
  timeLimitMs: 45_000,
}

/** Throws an Error that names the wrong option. */
export const parseBenchOptions = (args: readonly string[]): BenchOptions => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rounds: { type: 'string' },
      workers: { type: 'string' },
      compare: { type: 'string' },
      plugin: { type: 'string' },
      with: { type: 'string', default: '{}' },
      below: { type: 'string', default: 'params' },
      peer: { type: 'string', multiple: true, default: [] },
      node: { type: 'string', default: '0' },
      json: { type: 'string' },
      svg: { type: 'string' },
    },
  })
  const { quick, only, rounds, workers, compare, plugin, with: options, below, peer, node, json, svg } = values
  const settings = quick ? quickRunSettings : fullRunSettings
  return {
    settings: rounds === undefined ? settings : { ...settings, rounds: parseCount('rounds', rounds) },
    quick,
    only: (only === '' && plugin !== undefined ? pluginCases : only).split(',').filter(Boolean),
    peers: peer.map(parsePeer),
    nodePort: node === '0' ? 0 : parseCount('node', node),
    ...(workers === undefined ? {} : { workers: parseCount('workers', workers) }),
    ...(compare === undefined ? {} : { compare }),
    ...(plugin === undefined ? {} : { plugin: { file: plugin, options, below } }),
    ...(json === undefined ? {} : { json }),
    ...(svg === undefined ? {} : { svg }),
  }
}

/** What shows the cost of a plugin: calls that are answered above the node, and calls that reach it. */
const pluginCases = 'cached,uncached'

const parseCount = (name: string, text: string): number => {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new Error(`--${name} must be a positive number, not "${text}"`)
  return Number(text)
}

const parsePeer = (text: string): Peer => {
  const [, name, url, pid] = /^([^=]+)=(http:[^,]+)(?:,(\d+))?$/.exec(text) ?? []
  if (name === undefined || url === undefined) throw new Error(`--peer must be NAME=URL or NAME=URL,PID, not "${text}"`)
  return { name, url, ...(pid === undefined ? {} : { pid: Number(pid) }) }
}
