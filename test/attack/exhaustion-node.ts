import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** The attacks, in the order in which they run. */
export const exhaustionNames = [
  'bodies in chunks of one byte',
  'bodies of 1 MB whose calls hang',
  'unfinished WebSocket messages',
  'calls that hang on many WebSockets',
  'pipelined calls whose answers are not read',
  'answers of 20 MB that are read slowly',
  'batches of answers that are not read',
  'a flood of calls of one account',
  'pipelined requests without a valid key',
  'requests with hundreds of headers',
  'frames of one byte among pings',
  'batches of rpc.discover',
  'subscriptions to all logs',
  'idle WebSockets of one account',
  'silent connections of one address',
] as const

/** Attacks that take the connections of a gateway: its limit is low, and the bystander opens one for each call. */
export const connectionAttacks: ReadonlySet<string> = new Set([
  'idle WebSockets of one account',
  'silent connections of one address',
] satisfies (typeof exhaustionNames)[number][])

/** During this one the bystander has a subscription too, and its events may not be late. */
export const eventAttack = 'subscriptions to all logs' satisfies (typeof exhaustionNames)[number]

/** `limits.connections` of the gateway that they attack. */
export const maxAttackedConnections = 200

/** What a call of an attacker or of the bystander makes the node do, as the beginning of its `data`. */
export const callData = { hang: '0xdead', long: '0xb16', medium: '0x3ed', short: '0x5' } as const

const longBytes = 20 << 20
const mediumBytes = 100 << 10

/** Between two blocks of the node. */
export const exhaustionBlockMs = 500

const logsPerBlock = 50

/** The newest block of the node: it follows from the time, so that every process knows when a block came. */
export const newestBlock = (): number => Math.floor(Date.now() / exhaustionBlockMs)

/** A node with answers of every length, calls that it never answers, and blocks with logs. */
export const startExhaustionNode = async (): Promise<{ readonly url: string; stop(): Promise<void> }> => {
  const [long, medium] = [longBytes, mediumBytes].map(bytes => Buffer.from(`"0x${'ab'.repeat(bytes / 2)}"`))
  const resultOf = (text: string, method: string, data: string): Buffer | string | undefined => {
    if (method === 'eth_chainId') return '"0x7a69"'
    if (method === 'eth_blockNumber') return `"${hex(newestBlock())}"`
    if (method === 'eth_getBlockByNumber') return blockText(numberOf(text, /"params":\["(0x\w+)/) ?? newestBlock())
    if (method === 'eth_getBlockByHash') return blockText(numberOf(text, /"params":\["(0x\w+)/) ?? 0)
    if (method === 'eth_getLogs') return logsText(numberOf(text, /"(?:blockHash|fromBlock)":"(0x\w+)/) ?? newestBlock())
    if (data.startsWith(callData.hang)) return undefined
    return data.startsWith(callData.long) ? long : data.startsWith(callData.medium) ? medium : '"0x01"'
  }
  const server = http.createServer((request, response) => {
    let text = ''
    request.setEncoding('latin1').on('data', chunk => {
      // The id, the method and the beginning of `data` are in front.
      if (text.length < 1_000) text += chunk
    })
    request.on('end', () => {
      const [, id, method = ''] = /"id":("[^"]*"|\d+),"method":"(\w+)"/.exec(text) ?? []
      const result = resultOf(text, method, /"data":"(0x\w{0,10})/.exec(text)?.[1] ?? '')
      if (result === undefined) return
      const head = `{"jsonrpc":"2.0","id":${id},"result":`
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': head.length + result.length + 1 })
      response.write(head)
      response.write(result)
      response.end('}')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

const hex = (value: number): string => `0x${value.toString(16)}`

/** The number of a block, from which its hash follows. */
const hashOf = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`

const numberOf = (text: string, pattern: RegExp): number | undefined => {
  const [, quantity] = pattern.exec(text) ?? []
  return quantity === undefined ? undefined : Number(quantity)
}

const fullBloom = `0x${'ff'.repeat(256)}`

const blockText = (number: number): string =>
  JSON.stringify({
    number: hex(number),
    hash: hashOf(number),
    parentHash: hashOf(number - 1),
    timestamp: hex(Math.floor((number * exhaustionBlockMs) / 1_000)),
    logsBloom: fullBloom,
    transactions: [],
  })

const logsText = (number: number): string =>
  JSON.stringify(
    Array.from({ length: logsPerBlock }, (_, i) => ({
      address: `0x${'aa'.repeat(20)}`,
      topics: [`0x${'bb'.repeat(32)}`],
      data: `0x${'cc'.repeat(32)}`,
      blockNumber: hex(number),
      blockHash: hashOf(number),
      transactionHash: hashOf(number * logsPerBlock + i),
      transactionIndex: hex(i),
      logIndex: hex(i),
      removed: false,
    })),
  )
