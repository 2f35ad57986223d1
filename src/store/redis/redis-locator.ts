import { createClient } from '@redis/client'
import { mustReadRedisUrl } from '../../util/redis-url.ts'
import { Secret } from '../../plugin/secret.ts'
import { errorMessage } from './redis-errors.ts'

export interface Locator {
  /** With so many attempts each host of the URL has had its turn. */
  readonly hostCount: number
  locate(): Promise<Secret>
  /** Whether the URL still leads there. A primary that was replaced takes connections and writes until Sentinel has told it, which takes seconds. */
  leadsTo(located: Secret): Promise<boolean>
  /** The Sentinels, which publish when they replace a primary; undefined where the URL names none. After locate(). */
  sentinels(): Secret | undefined
}

/**
 * Where to connect next, as the URL of one Redis. With several hosts it is the next one each time: the last may be down. With Sentinels it is
 * the primary that they name, which changes with a failover. Rejects with an Error where none names it.
 */
export const createLocator = (url: Secret): Locator => {
  const parsed = mustReadRedisUrl(url.reveal())
  const redisAt = (host: string) => new Secret(parsed.urlAt(host), host)
  let turn = 0
  /** The host whose turn it is. */
  const nextHost = (): string => parsed.hosts[turn++ % parsed.hosts.length] as string // a URL has at least one host
  const { primary } = parsed
  if (primary === undefined)
    return {
      hostCount: parsed.hosts.length,
      locate: async () => redisAt(nextHost()),
      leadsTo: async () => true,
      sentinels: () => undefined,
    }
  let needsCredentials = false
  /** The primary's `host:port`. Sentinels without a password refuse credentials, and those with one refuse commands without. */
  const ask = async (sentinel: string): Promise<string> => {
    const reply = await askSentinel(parsed.nodeUrlAt(sentinel, 'without credentials'), primary).catch((error: unknown) => {
      if (!errorMessage(error).startsWith('NOAUTH')) throw error
      needsCredentials = true
      return askSentinel(parsed.nodeUrlAt(sentinel), primary)
    })
    if (!Array.isArray(reply)) throw new Error(`the Sentinel at ${sentinel} knows no primary "${primary}"`)
    const [host, port] = reply as readonly string[] // as Sentinel promises
    return host?.includes(':') === true ? `[${host}]:${port}` : `${host}:${port}`
  }
  const locate = async () => {
    let failure: unknown
    for (const _ of parsed.hosts) {
      const sentinel = nextHost()
      try {
        const host = await ask(sentinel)
        // The same one is asked first the next time.
        turn -= 1
        return redisAt(host)
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }
  return {
    hostCount: 1,
    locate,
    leadsTo: async located => (await locate()).reveal() === located.reveal(),
    sentinels: () =>
      new Secret(parsed.nodeUrlAt(parsed.hosts.join(','), needsCredentials ? undefined : 'without credentials'), String(url)),
  }
}

/** A Sentinel that does not answer within this time is passed over. */
const sentinelTimeoutMs = 1_000

const askSentinel = async (url: string, primary: string): Promise<unknown> => {
  const client = clientTemplate.duplicate({
    url,
    socket: { connectTimeout: sentinelTimeoutMs, socketTimeout: sentinelTimeoutMs, reconnectStrategy: false },
  })
  // What fails is reported by what was called.
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', primary])
  } finally {
    client.destroy()
  }
}

/** Never connects: a copy of a client takes a hundredth of the time that a new one takes. */
const clientTemplate = createClient({ RESP: 2, disableClientInfo: true, commandOptions: { timeout: 0 } })
