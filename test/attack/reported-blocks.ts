import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Hex } from 'viem'
import { mnemonicToAccount } from 'viem/accounts'
import { startAnvilChain } from '../support/anvil-chain.ts'
import type { AnvilChain } from '../support/anvil-chain.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { call, connectWs } from '../support/rpc-client.ts'
import type { RpcMessage } from '../support/rpc-client.ts'
import { mustBeZero } from './attack.ts'
import type { Attack } from './attack.ts'

/** One gateway, its nodes, and its callers. */
export interface ReportedBlocksRow {
  readonly name: string
  /** Seconds between the blocks of the node; absent: a block for each transaction. */
  readonly blockSeconds?: number
  /** Is the gateway configured with the `ws` of its nodes? */
  readonly ws?: boolean
  /** A second node is listed first, and has each block this many ms later. */
  readonly lagMs?: number
  readonly workers?: number
  /** How callers are connected; HTTP unless given. */
  readonly transport?: 'http' | 'ws'
}

export interface ReportedBlocksResult {
  readonly name: string
  readonly rounds: number
  /** Rounds in which a caller who had the receipt of a block was given an answer from before that block. */
  readonly stale: number
  /** The first stale answers, in words. */
  readonly examples: readonly string[]
}

export interface ReportedBlocksOptions {
  /** Transactions of each row. */
  readonly rounds: number
  readonly rows?: readonly ReportedBlocksRow[]
  /** Selects the values that are written. */
  readonly seed: number
  log(line: string): void
}

export const reportedBlocksRows: readonly ReportedBlocksRow[] = [
  { name: 'a block for each transaction' },
  { name: 'a block for each transaction, ws', ws: true },
  { name: 'a block for each transaction, callers over WebSocket', transport: 'ws' },
  { name: 'a block for each transaction, two workers', workers: 2 },
  { name: 'a block for each transaction, a lagging node', lagMs: 150 },
  { name: 'a block for each transaction, a lagging node, two workers, callers over WebSocket', lagMs: 150, workers: 2, transport: 'ws' },
  { name: 'a block a second', blockSeconds: 1 },
  { name: 'a block a second, ws', blockSeconds: 1, ws: true },
  { name: 'a block a second, two workers', blockSeconds: 1, workers: 2 },
  { name: 'a block a second, a lagging node, ws', blockSeconds: 1, lagMs: 400, ws: true },
]

/**
 * Callers send a transaction, wait for its receipt, and read again, all through the gateway. Each answer after the receipt must
 * be from the block of the receipt or later.
 */
export const runReportedBlocks = async ({
  rounds,
  rows = reportedBlocksRows,
  seed,
  log,
}: ReportedBlocksOptions): Promise<readonly ReportedBlocksResult[]> => {
  const results: ReportedBlocksResult[] = []
  // One gateway for the rows with as many workers; each row is a network of its own.
  for (const workers of new Set(rows.map(workersOf))) {
    const rowsOfGateway = rows.filter(row => workersOf(row) === workers)
    for (const result of await runGateway(workers, rowsOfGateway, { rounds, seed })) {
      log(`${result.name}: ${result.stale} of ${result.rounds} stale${result.examples.map(example => `\n      ${example}`).join('')}`)
      results.push(result)
    }
  }
  return results
}

const workersOf = ({ workers = 1 }: ReportedBlocksRow): number => workers

/** Rounds of each row in the short run. */
const shortRounds = 20

export const reportedBlocks: Attack = {
  name: 'reported-blocks',
  summary: 'after the receipt of a block, no answer is from before that block',
  async run({ seed, scale, log }) {
    const results = await runReportedBlocks({ rounds: shortRounds * scale, seed, log })
    return results.map(({ name, rounds, stale }) => mustBeZero(`stale of ${rounds}, ${name}`, stale))
  },
}

type Rounds = Pick<ReportedBlocksOptions, 'rounds' | 'seed'>

const runGateway = async (
  workers: number,
  rows: readonly ReportedBlocksRow[],
  rounds: Rounds,
): Promise<readonly ReportedBlocksResult[]> => {
  const nodes = await Promise.all(rows.map(startNodes))
  const deployment = createDeployment({
    gateway: { workers, plans: { core: { dailyCredits: 1_000_000_000 } } },
    networks: Object.fromEntries(nodes.map(({ row, upstreams }, i) => [`row-${i}`, networkOf(i, row, upstreams)])),
  })
  try {
    const { key } = await deployment.addCaller('alice')
    const gateway = await deployment.start()
    return await Promise.all(nodes.map((each, i) => runRow(each, { gateway, key, host: hostOf(i) }, rounds)))
  } finally {
    await deployment.remove()
    await Promise.all(nodes.map(({ stop }) => stop()))
  }
}

const hostOf = (row: number): string => `row-${row}.test`

const networkOf = (index: number, { blockSeconds }: ReportedBlocksRow, upstreams: readonly object[]) => ({
  ...networkFile(`row-${index}`, [], { failover: { upstreams } }),
  hosts: [hostOf(index)],
  blockTime: blockSeconds === undefined ? '100ms' : `${blockSeconds}s`,
})

interface RowNodes {
  readonly row: ReportedBlocksRow
  readonly chain: AnvilChain
  readonly upstreams: readonly object[]
  stop(): Promise<unknown>
}

const startNodes = async (row: ReportedBlocksRow): Promise<RowNodes> => {
  const chain = await startAnvilChain(...(row.blockSeconds === undefined ? [] : ['--block-time', String(row.blockSeconds)]))
  const lagging = row.lagMs === undefined ? undefined : await startLaggingNode(chain, row.lagMs)
  const node = { name: 'node', url: chain.url, ...(row.ws === true && { ws: chain.url.replace('http', 'ws') }) }
  return {
    row,
    chain,
    upstreams: [...(lagging ? [{ name: 'lagging', url: lagging.url }] : []), node],
    stop: async () => {
      await lagging?.stop()
      await chain.stop()
    },
  }
}

/** What a caller connects to. */
interface Endpoint {
  readonly gateway: GatewayProcess
  readonly key: string
  readonly host: string
}

/** On a chain with a block a second so many callers wait for the same blocks: otherwise each round would take a second. */
const maxCallers = 5

const runRow = async ({ row, chain }: RowNodes, endpoint: Endpoint, { rounds, seed }: Rounds): Promise<ReportedBlocksResult> => {
  const contract = await deployStorage(chain)
  const callerCount = row.blockSeconds === undefined ? 1 : Math.min(maxCallers, rounds)
  const callers = await Promise.all(Array.from({ length: callerCount }, (_, i) => openCaller(i, endpoint, contract, row)))
  const stale = await Promise.all(callers.map((caller, i) => caller.runRounds(Math.ceil((rounds - i) / callerCount), seed)))
  await Promise.all(callers.map(caller => caller.close()))
  return { name: row.name, rounds, stale: stale.flat().length, examples: stale.flat().slice(0, maxExamples) }
}

const maxExamples = 3

/** Stores its second argument in the slot that the first names: `sstore(calldataload(4), calldataload(36))`. */
const deployStorage = async (chain: AnvilChain): Promise<string> => {
  const receipt = await chain.sendTransaction({ data: '0x600980600b6000396000f3602435600435550000' })
  if (receipt.contractAddress === null) throw new Error('the contract was not created')
  return receipt.contractAddress
}

const toWord = (value: number): string => value.toString(16).padStart(64, '0')

const toNumber = (hex: unknown): number => Number(hex ?? '0x0')

/** anvil's own. */
const mnemonic = 'test test test test test test test test test test test junk'

const receiptPollMs = 20

interface Caller {
  /** Resolves with a sentence for each stale round. */
  runRounds(rounds: number, seed: number): Promise<readonly string[]>
  close(): Promise<void>
}

type Request = <T = string>(method: string, ...params: readonly unknown[]) => Promise<T>

/** Each call has a connection of its own, or the next of several WebSockets: so any worker may get it. */
const connect = async ({ gateway, key, host }: Endpoint, { transport }: ReportedBlocksRow) => {
  if (transport !== 'ws') {
    const url = gateway.http(key)
    const request: Request = <T>(method: string, ...params: readonly unknown[]) => resultOf<T>(call(url, method, params, { host }))
    return { request, close: async () => {} }
  }
  const sockets = await Promise.all(Array.from({ length: 4 }, () => connectWs(gateway.ws(key), { host })))
  let turn = 0
  const request: Request = async <T>(method: string, ...params: readonly unknown[]) => {
    turn += 1
    return resultOf<T>(sockets[turn % sockets.length]!.call(method, params))
  }
  return { request, close: async () => void (await Promise.all(sockets.map(socket => socket.close()))) }
}

/** The result of a call that must succeed. */
const resultOf = async <T>(message: Promise<RpcMessage>): Promise<T> => {
  const { result, error } = await message
  if (error !== undefined) throw new Error(error.message)
  return result as T
}

const openCaller = async (index: number, endpoint: Endpoint, contract: string, row: ReportedBlocksRow): Promise<Caller> => {
  // The first account deploys the contract.
  const account = mnemonicToAccount(mnemonic, { addressIndex: index + 1 })
  const slot = `0x${toWord(index)}`
  const { request, close } = await connect(endpoint, row)
  const reads = {
    height: async () => toNumber(await request('eth_blockNumber')),
    nonce: async () => toNumber(await request('eth_getTransactionCount', account.address, 'latest')),
    pendingNonce: async () => toNumber(await request('eth_getTransactionCount', account.address, 'pending')),
    value: async () => toNumber(await request('eth_getStorageAt', contract, slot, 'latest')),
    block: async () => toNumber((await request<{ number: string }>('eth_getBlockByNumber', 'latest', false)).number),
  }
  let firstRead = 0
  /** One after the other, each time beginning with the next: what one of them says must not help the others. */
  const readAll = async () => {
    const names = Object.keys(reads) as (keyof typeof reads)[]
    firstRead = (firstRead + 1) % names.length
    const found = { height: 0, nonce: 0, pendingNonce: 0, value: 0, block: 0 }
    for (const name of [...names.slice(firstRead), ...names.slice(0, firstRead)]) found[name] = await reads[name]()
    return found
  }
  const sendTransaction = async (nonce: number, value: number): Promise<string> => {
    const serialized = await account.signTransaction({
      type: 'eip1559',
      chainId: 31337,
      nonce,
      to: contract as Hex,
      data: `0x00000000${toWord(index)}${toWord(value)}`,
      gas: 100_000n,
      maxFeePerGas: 10_000_000_000n,
      maxPriorityFeePerGas: 1_000_000_000n,
    })
    return request('eth_sendRawTransaction', serialized)
  }
  const waitForReceipt = async (hash: string): Promise<number> => {
    for (;;) {
      const receipt = await request<{ blockNumber: string; status: string } | null>('eth_getTransactionReceipt', hash)
      if (receipt !== null) {
        if (receipt.status !== '0x1') throw new Error('the transaction was reverted')
        return toNumber(receipt.blockNumber)
      }
      await readAll()
      await new Promise(resolve => setTimeout(resolve, receiptPollMs))
    }
  }
  const runRound = async (nonce: number, value: number): Promise<string | undefined> => {
    await readAll()
    const block = await waitForReceipt(await sendTransaction(nonce, value))
    const read = await readAll()
    const isStale = read.height < block || read.block < block || read.nonce <= nonce || read.pendingNonce <= nonce || read.value !== value
    return isStale ? `receipt of block ${block}, nonce ${nonce}, value ${value}; then ${JSON.stringify(read)}` : undefined
  }
  return {
    async runRounds(rounds, seed) {
      const stale: string[] = []
      for (let nonce = 0; nonce < rounds; nonce++) {
        const found = await runRound(nonce, seed * 1_000_000 + nonce + 1)
        if (found !== undefined) stale.push(found)
      }
      return stale
    },
    close,
  }
}

interface LaggingNode {
  readonly url: string
  stop(): Promise<void>
}

/** The node behind a proxy for which each block comes `lagMs` later than for the node itself. */
const startLaggingNode = async (chain: AnvilChain, lagMs: number): Promise<LaggingNode> => {
  const firstSeenMs: number[] = []
  const visibleHeight = async (): Promise<number> => {
    const height = toNumber(await chain.request('eth_blockNumber'))
    const now = performance.now()
    for (let number = firstSeenMs.length; number <= height; number++) firstSeenMs[number] = now
    return Math.max(
      0,
      firstSeenMs.findLastIndex(seenMs => now - seenMs >= lagMs),
    )
  }
  // Blocks are seen when they come, not when the proxy is asked next.
  const timer = setInterval(() => void visibleHeight().catch(() => undefined), 5)
  const isAboveHead = (result: unknown, head: number): boolean => {
    const { blockNumber, number } = Object(result) as { blockNumber?: string; number?: string }
    return toNumber(blockNumber) > head || toNumber(number) > head
  }
  const server = createServer(async (incoming, response) => {
    const { id, method, params } = JSON.parse(await text(incoming)) as { id: unknown; method: string; params: unknown[] }
    const head = await visibleHeight()
    const atHead = params.map(param => (param === 'latest' || param === 'pending' ? `0x${head.toString(16)}` : param))
    const answer = await chain.request<unknown>(method, ...atHead).then(
      result => ({ result: method === 'eth_blockNumber' ? `0x${head.toString(16)}` : isAboveHead(result, head) ? null : result }),
      (error: Error) => ({ error: { code: -32000, message: error.message } }),
    )
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server has no other kind of address
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      clearInterval(timer)
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
