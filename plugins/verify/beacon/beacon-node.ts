import { unescape as decodePercent } from 'node:querystring'
import { fetchText } from '../../../src/plugin/internal.ts'
import { isJsonObject } from '../../../src/plugin/plugin.ts'
import type { Json, Secret } from '../../../src/plugin/plugin.ts'

/** The consensus node does not answer, or not with what was asked for. The message has no URL. */
export class BeaconUnavailable extends Error {}

interface BeaconNodeOptions {
  readonly url: Secret
  readonly headers: Readonly<Record<string, Secret>>
}

const timeoutMs = 5_000
/** A bootstrap and an update have 512 keys each: 55 KB. */
const maxBootstrapBytes = 262_144
const maxUpdatesBytes = 4_194_304
const maxHeaderBytes = 65_536
const maxSpecBytes = 262_144
/** Updates of periods in one request. */
export const maxUpdates = 8

const lightClientPath = '/eth/v1/beacon/light_client'

/** A consensus node, by the Beacon API (ethereum/beacon-APIs). What it returns is not checked here. All methods throw BeaconUnavailable. */
export class BeaconNode {
  readonly #options: BeaconNodeOptions

  constructor(options: BeaconNodeOptions) {
    this.#options = options
  }

  async bootstrap(checkpoint: string): Promise<Json> {
    return dataOf(await this.#get(`${lightClientPath}/bootstrap/${checkpoint}`, maxBootstrapBytes))
  }

  /** Of so many periods, of which the node may have fewer. */
  async updates(startPeriod: number, count: number): Promise<readonly Json[]> {
    const params = { start_period: String(startPeriod), count: String(count) }
    const updates = await this.#get(`${lightClientPath}/updates`, maxUpdatesBytes, params)
    if (!Array.isArray(updates)) throw new BeaconUnavailable('the answer is no list of updates')
    return updates.map(dataOf)
  }

  async finalityUpdate(): Promise<Json> {
    return dataOf(await this.#get(`${lightClientPath}/finality_update`, maxHeaderBytes))
  }

  async optimisticUpdate(): Promise<Json> {
    return dataOf(await this.#get(`${lightClientPath}/optimistic_update`, maxHeaderBytes))
  }

  /** Undefined for a fork that is not scheduled. */
  async forkEpoch(fork: string): Promise<number | undefined> {
    const spec = dataOf(await this.#get('/eth/v1/config/spec', maxSpecBytes))
    const epoch = Number(isJsonObject(spec) ? spec[`${fork.toUpperCase()}_FORK_EPOCH`] : undefined)
    return Number.isSafeInteger(epoch) ? epoch : undefined
  }

  async #get(path: string, maxBytes: number, params: Readonly<Record<string, string>> = {}): Promise<Json> {
    const url = new URL(this.#options.url.reveal())
    const headers: Record<string, string> = { accept: 'application/json' }
    if (url.username !== '' || url.password !== '') {
      // fetch() refuses such a URL.
      headers['authorization'] = `Basic ${Buffer.from(`${decodePercent(url.username)}:${decodePercent(url.password)}`).toString('base64')}`
      url.username = ''
      url.password = ''
    }
    url.pathname = `${url.pathname.replace(/\/$/, '')}${path}`
    for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value)
    for (const [name, value] of Object.entries(this.#options.headers)) headers[name] = value.reveal()
    const name = path.split('/').slice(4, 6).join('/')
    const text = await fetchText(url, { headers, timeoutMs, maxBytes }).catch(({ message }: Error) => {
      throw new BeaconUnavailable(`${name}: ${message}`)
    })
    try {
      return JSON.parse(text)
    } catch {
      throw new BeaconUnavailable(`${name}: the answer is no JSON`)
    }
  }
}

const dataOf = (answer: Json): Json => {
  if (!isJsonObject(answer) || answer['data'] === undefined) throw new BeaconUnavailable('the answer has no data')
  return answer['data']
}
