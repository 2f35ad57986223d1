import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { constants, emitter, mostLogs, words } from './calls.ts'
import { serve } from './baselines/serve.ts'

// A node that knows its answers by heart; the port is its argument, when it must be a certain one.

interface Asked {
  readonly id: unknown
  readonly method: string
  readonly params?: readonly unknown[]
}

const hash = (digit: string): string => `0x${digit.repeat(64)}`

const writeLogs = (words: number): Buffer => {
  const log = (i: number) =>
    JSON.stringify({
      address: emitter(words),
      topics: [hash('d'), hash('e'), hash('f')],
      data: `0x${'0123456789abcdef'.repeat(4 * words)}`,
      blockNumber: `0x${(0x14b0000 + i).toString(16)}`,
      transactionHash: hash('a'),
      transactionIndex: `0x${(i % 200).toString(16)}`,
      blockHash: hash('b'),
      logIndex: `0x${(i % 500).toString(16)}`,
      removed: false,
    })
  return Buffer.from(`[${Array.from({ length: mostLogs }, (_, i) => log(i)).join()}]`)
}

const bytesOf = (result: unknown): Buffer => Buffer.from(JSON.stringify(result))
const results = new Map(Object.entries(constants).map(([method, result]) => [method, bytesOf(result)]))
const logs = new Map([words.small, words.large].map(count => [emitter(count), writeLogs(count)]))
const none = Buffer.from('[]')

const resultOf = ({ method, params }: Asked): Buffer => {
  if (method !== 'eth_getLogs') return results.get(method) ?? Buffer.from('null')
  const filter = params?.[0] as { address?: string } | undefined // whatever else it is, it has no such address
  return logs.get(filter?.address ?? '') ?? none
}

const send = (res: ServerResponse, parts: readonly Buffer[]): void => {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': length })
  if (length < 65_536) return void res.end(Buffer.concat(parts))
  for (const part of parts) res.write(part) // as it is: a copy of 21 MB would be what takes longest here
  res.end()
}

const answer = (asked: Asked): Buffer[] => [
  Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(asked.id)},"result":`),
  resultOf(asked),
  Buffer.from('}'),
]

const answerAll = (batch: readonly Asked[]): Buffer[] => [
  ...batch.flatMap((asked, i) => [Buffer.from(i > 0 ? ',' : '['), ...answer(asked)]),
  Buffer.from(']'),
]

serve(
  createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const asked = JSON.parse(Buffer.concat(chunks).toString()) as Asked | Asked[] // only gateways ask here
      send(res, Array.isArray(asked) ? answerAll(asked) : answer(asked))
    })
  }),
  Number(process.argv[2] ?? 0),
)
