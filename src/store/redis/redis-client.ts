import { mustReadRedisUrl } from '../../util/redis-url.ts'
import type { RedisUrl } from '../../util/redis-url.ts'
import { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../../services/clock.ts'
import { singleFlight } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { StoreError } from '../store.ts'
import { RedisConnection } from './redis-connection.ts'
import type { ConnectionAddress, ConnectionOptions } from './redis-connection.ts'
import { replyOf } from './redis-errors.ts'
import { keySlot, readSlotOwners } from './redis-slots.ts'
import type { Script } from './redis-scripts.ts'

/**
 * Commands to a Redis, or to a cluster of Redises: then each command goes to the node that has its key. A command that fails is not sent
 * again, as it may have been carried out; one that a node refuses because another has the key, is sent there.
 */
export class RedisClient {
  readonly #url: RedisUrl
  /** Host and port, for errors. */
  readonly #name: string
  readonly #clock: Clock
  readonly #options: ConnectionOptions
  /** Where the URL leads to: the Redis, or a node of the cluster, which tells the others. */
  readonly #entry: RedisConnection
  /** The nodes of a cluster that have had commands, by `host:port`; and those of them that were connected. */
  readonly #nodes = new Map<string, Promise<RedisConnection>>()
  readonly #openNodes = new Map<string, RedisConnection>()
  /** The node of each slot, `host:port`; undefined: no cluster, as far as is known. */
  #owners: readonly (string | undefined)[] | undefined
  #nextRefreshMs = -Infinity
  #refreshCount = 0
  #isClosed = false

  /** As those of RedisConnection. */
  constructor(address: ConnectionAddress, clock: Clock, options: ConnectionOptions = {}) {
    this.#url = mustReadRedisUrl(address.url.reveal())
    this.#name = String(address.url)
    this.#clock = clock
    this.#options = options
    this.#entry = new RedisConnection(address, clock, options)
  }

  async open(): Promise<void> {
    await this.#entry.open()
    // Not every provider allows INFO: then the first node that refuses a key tells.
    const info = String(await this.#entry.send(['INFO', 'cluster']).catch(() => ''))
    if (info.includes('cluster_enabled:1')) await this.#refresh()
  }

  /** All keys have the same slot. */
  runScript(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    return this.#run(keys[0], sendScript(script, keys, args))
  }

  /**
   * runScript() that resolves once a replica has what it has written, where one follows the node. Rejects where none confirms it: then it is
   * written, and lost if the node fails. Commands that follow on this client wait meanwhile.
   */
  runReplicatedScript(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    const send = sendScript(script, keys, args)
    return this.#run(keys[0], async (node, how) => {
      // Not every provider allows it.
      const hasReplicas = hasFollowers(String(await node.send(['INFO', 'replication']).catch(() => '')))
      const reply = await send(node, how)
      if (hasReplicas && (await waitForReplicas(node, 1)) === 0) {
        throw new StoreError(
          `redis at ${this.#name} has written the change, but no replica has confirmed it within ${replicationTimeoutMs} ms: ` +
            'it is lost if this Redis fails now; repeat it when its replicas follow',
        )
      }
      return reply
    })
  }

  /** Whether its user may use WAIT, without which runReplicatedScript() waits for no replica. */
  async mayWait(): Promise<boolean> {
    return (await waitForReplicas(this.#entry, 0).catch(() => 0)) !== undefined
  }

  /** A command whose first argument is its only key, or PING, INFO or CLUSTER, which have none. */
  sendCommand(...args: readonly string[]): Promise<unknown> {
    const [name = '', key] = args
    return this.#run(keylessCommands.has(name) ? undefined : key, (node, how) => node.send(args, how))
  }

  /** A command with a key, for arguments and a reply in bytes. */
  sendBinaryCommand(name: string, key: string, ...args: readonly (string | Buffer)[]): Promise<Buffer> {
    const send: Send = (node, how) => node.send([name, key, ...args], { ...how, binary: true })
    // A bulk string is mapped to a Buffer; the caller knows that the command returns one.
    return this.#run(key, send) as Promise<Buffer>
  }

  /** What INFO says of a section, of each node that takes writes. */
  async infos(section: string): Promise<readonly string[]> {
    const nodes = await this.#writableNodes()
    return Promise.all(nodes.map(async node => String(await node.send(['INFO', section]))))
  }

  /** The keys of all nodes that match, at least once each. */
  async *scanKeys(pattern: string): AsyncGenerator<string> {
    for (const node of await this.#writableNodes()) {
      let cursor = '0'
      do {
        // As Redis promises.
        const [next, keys] = (await node.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', '1000'])) as [string, readonly string[]]
        yield* keys
        cursor = next
      } while (cursor !== '0')
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const nodes = [...this.#nodes.values()].map(closeWhenOpen)
    await Promise.all([this.#entry.close(), ...nodes])
  }

  async #writableNodes(): Promise<readonly RedisConnection[]> {
    const hosts = [...new Set(this.#owners)].filter(host => host !== undefined)
    return hosts.length === 0 ? [this.#entry] : Promise.all(hosts.map(host => this.#nodeAt(host)))
  }

  async #run(key: string | undefined, send: Send): Promise<unknown> {
    let node = this.#nodeOf(key)
    let isAsking = false
    for (let redirects = 0; ; redirects += 1) {
      try {
        return await send(await node, { isAsking })
      } catch (error) {
        const [, kind, host = '', port = ''] = redirectPattern.exec(replyOf(error)) ?? []
        if (kind !== 'ASK') this.#refreshSoon(kind)
        if (kind === undefined || redirects === maxRedirects) throw error
        node = this.#nodeAt(this.#withHost(host, port))
        isAsking = kind === 'ASK'
      }
    }
  }

  /** Without a key, any node that is connected. */
  #nodeOf(key: string | undefined): RedisConnection | Promise<RedisConnection> {
    const owner = key === undefined ? undefined : this.#owners?.[keySlot(key)]
    if (owner !== undefined) return this.#nodeAt(owner)
    return this.#entry.isReady ? this.#entry : ([...this.#openNodes.values()].find(({ isReady }) => isReady) ?? this.#entry)
  }

  /** Rejects where the first connection fails; the next command tries again. Later the connection is renewed by itself. */
  #nodeAt(host: string): Promise<RedisConnection> {
    return getOrCreate(this.#nodes, host, async () => {
      const node = new RedisConnection({ url: new Secret(this.#url.nodeUrlAt(host), host) }, this.#clock, {
        ...this.#options,
        retryInitialConnect: false,
      })
      try {
        await node.open()
      } catch (error) {
        this.#nodes.delete(host)
        throw error
      }
      this.#openNodes.set(host, node)
      return node
    })
  }

  /** After a failure, as another node may have taken over; at most once in a while. `kind` is that of a redirection: then it is a cluster. */
  #refreshSoon(kind: string | undefined): void {
    const now = this.#clock.monotonic()
    if (this.#isClosed || (this.#owners ?? kind) === undefined || now < this.#nextRefreshMs) return
    this.#nextRefreshMs = now + minRefreshIntervalMs
    void this.#refresh()
  }

  /** Learns the node of each slot. The node that is asked first is another one each time: it may be cut off from the others. */
  readonly #refresh = singleFlight(async (): Promise<void> => {
    const ready = [this.#entry, ...this.#openNodes.values()].filter(({ isReady }) => isReady)
    const first = (this.#refreshCount += 1) % Math.max(1, ready.length)
    for (const node of [...ready.slice(first), ...ready.slice(0, first)]) {
      const reply = await node.send(['CLUSTER', 'SLOTS']).catch(() => undefined)
      if (!Array.isArray(reply)) continue
      this.#owners = readSlotOwners(reply, (host, port) => this.#withHost(host, port))
      this.#closeNodesExcept(new Set(this.#owners))
      return
    }
  })

  #closeNodesExcept(hosts: ReadonlySet<string | undefined>): void {
    for (const [host, opening] of this.#nodes) {
      if (hosts.has(host)) continue
      this.#nodes.delete(host)
      this.#openNodes.delete(host)
      void closeWhenOpen(opening)
    }
  }

  /** A node that does not know its own host leaves it out: it is that of the URL. */
  #withHost(host: string, port: string): string {
    const known = host === '' || host === '?' ? (this.#url.hosts[0] ?? '').replace(/:\d+$/, '') : host
    return known.includes(':') && !known.startsWith('[') ? `[${known}]:${port}` : `${known}:${port}`
  }
}

/** Redis forgets scripts when it restarts: then the text is sent again. All keys have the same slot. */
const sendScript = (script: Script, keys: readonly string[], args: readonly (string | number)[]): Send => {
  const scriptArgs = [String(keys.length), ...keys, ...args.map(String)]
  return async (node, how) => {
    try {
      return await node.send(['EVALSHA', script.sha, ...scriptArgs], how)
    } catch (error) {
      if (!replyOf(error).startsWith('NOSCRIPT')) throw error
      return node.send(['EVAL', script.text, ...scriptArgs], how)
    }
  }
}

/** How many replicas have what this connection has written. Undefined where WAIT is not allowed: rights may be older than its use. */
const waitForReplicas = async (node: RedisConnection, count: number): Promise<number | undefined> => {
  try {
    return Number(await node.send(['WAIT', `${count}`, `${replicationTimeoutMs}`]))
  } catch (error) {
    if (/^(NOPERM|ERR unknown command)/i.test(replyOf(error))) return undefined
    throw error
  }
}

const replicationTimeoutMs = 500

/** Replicas that have answered lately, as min-replicas-max-lag counts them. */
const hasFollowers = (replicationInfo: string): boolean =>
  Array.from(replicationInfo.matchAll(/^slave\d+:.*state=online.*lag=(\d+)/gm)).some(([, lag]) => Number(lag) <= maxReplicaLagSeconds)

const maxReplicaLagSeconds = 10

type Send = (node: RedisConnection, how: { readonly isAsking: boolean }) => Promise<unknown>

const keylessCommands: ReadonlySet<string> = new Set(['PING', 'INFO', 'CLUSTER'])

/** `MOVED 3999 10.0.0.1:6381`: that node has the slot; ASK: it gets it, and takes this command already. */
const redirectPattern = /^(MOVED|ASK) \d+ (.*):(\d+)$/

/** A cluster that has settled needs one. */
const maxRedirects = 5

const minRefreshIntervalMs = 250

const closeWhenOpen = (opening: Promise<RedisConnection>): Promise<void> => opening.then(node => node.close()).catch(() => undefined)
