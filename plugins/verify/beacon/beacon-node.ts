import { unescape as decodePercent } from 'node:querystring'
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

  /** Redirects are not followed. */
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
    const response = await fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) }).catch(error =>
      fail(name, error),
    )
    if (response.status !== 200) {
      await response.body?.cancel()
      throw new BeaconUnavailable(`${name}: HTTP ${response.status}`)
    }
    const text = await readBounded(response, maxBytes).catch(error => fail(name, error))
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

const readBounded = async ({ body }: Response, maxBytes: number): Promise<string> => {
  const chunks: Uint8Array[] = []
  let byteLength = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    byteLength += chunk.length
    if (byteLength > maxBytes) throw new BeaconUnavailable(`the answer is larger than ${maxBytes} bytes`)
  }
  return Buffer.concat(chunks).toString()
}

/** A message of fetch() may quote the URL: only its code is shown. */
const fail = (name: string, error: unknown): never => {
  if (error instanceof BeaconUnavailable) throw new BeaconUnavailable(`${name}: ${error.message}`)
  if (error instanceof Error && error.name === 'TimeoutError') throw new BeaconUnavailable(`${name}: no answer in ${timeoutMs / 1000} s`)
  const cause: unknown = error instanceof Error ? error.cause : undefined
  throw new BeaconUnavailable(`${name}: ${cause instanceof Error && 'code' in cause ? String(cause.code) : 'the request failed'}`)
}
