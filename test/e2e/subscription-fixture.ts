import type { Test } from 'tap'
import type { AnvilChain } from '../support/anvil-chain.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { connectWs } from '../support/rpc-client.ts'
import type { WsClient } from '../support/rpc-client.ts'

/** A gateway with two accounts: `bob` has credits for few calls. */
export const startSubscriptionGateway = async (
  t: Test,
  chain: AnvilChain,
  gateway: object,
  devnet = networkFile('devnet', [chain.url]),
) => {
  const {
    deployment,
    gateway: running,
    ...alice
  } = await startGateway(t, {
    gateway: { plans: { core: { dailyCredits: 3_000_000 }, tiny: { dailyCredits: 100 } }, ...gateway },
    networks: { devnet },
  })
  const bob = await deployment.addCaller('bob', 'tiny')
  const connect = async (key = alice.key): Promise<WsClient> => {
    const client = await connectWs(running.ws(key))
    t.teardown(() => client.close())
    return client
  }
  return { deployment, alice, bob, running, connect }
}

export const subscribe = async (client: WsClient, ...params: readonly unknown[]): Promise<string> =>
  (await client.call('eth_subscribe', params)).result as string

export interface Header {
  readonly number: string
  readonly hash: string
  readonly parentHash: string
}

export interface Log {
  readonly address: string
  readonly topics: readonly string[]
  readonly blockHash: string
  readonly blockNumber: string
  readonly logIndex: string
  readonly removed: boolean
}

/** The logs that are left when those with `removed: true` are taken back. */
export const replay = (logs: readonly Log[]): readonly Log[] =>
  logs.reduce<readonly Log[]>((kept, log) => {
    if (!log.removed) return [...kept, log]
    return kept.filter(({ blockHash, logIndex }) => blockHash !== log.blockHash || logIndex !== log.logIndex)
  }, [])

/** The hashes of so many blocks of the chain. */
export const hashesOf = async (chain: AnvilChain, from: string, count: number): Promise<readonly string[]> => {
  const blocks = Array.from({ length: count }, (_, i) =>
    chain.request<Header>('eth_getBlockByNumber', `0x${(Number(from) + i).toString(16)}`, false),
  )
  return (await Promise.all(blocks)).map(({ hash }) => hash)
}
