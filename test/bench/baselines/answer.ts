import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants } from '../calls.ts'

interface Asked {
  readonly id: unknown
  readonly method: string
}

/** The whole body as text. */
export const readBody = (req: IncomingMessage): Promise<string> =>
  new Promise(resolve => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => resolve(Buffer.concat(chunks).toString()))
  })

export const send = (res: ServerResponse, body: string): void => {
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  res.end(body)
}

/** Parses what is asked and answers a constant: the least that a server of JSON-RPC can do. */
export const answer = (text: string): string => {
  const asked = JSON.parse(text) as Asked | Asked[] // only the benchmark asks here
  return Array.isArray(asked) ? `[${asked.map(answerOne).join()}]` : answerOne(asked)
}

const results = new Map(Object.entries(constants).map(([method, result]) => [method, JSON.stringify(result)]))

const answerOne = ({ id, method }: Asked): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${results.get(method) ?? 'null'}}`
