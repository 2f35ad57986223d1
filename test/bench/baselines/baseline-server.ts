import type { IncomingMessage, ServerResponse } from 'node:http'
import { cannedResults } from '../request-templates.ts'

interface RpcRequest {
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

export const sendJson = (res: ServerResponse, body: string): void => {
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  res.end(body)
}

/** Parses what is asked and answers a constant: the least that a server of JSON-RPC can do. */
export const respond = (text: string): string => {
  const request = JSON.parse(text) as RpcRequest | RpcRequest[] // only the benchmark asks here
  return Array.isArray(request) ? `[${request.map(respondToOne).join()}]` : respondToOne(request)
}

const results = new Map(Object.entries(cannedResults).map(([method, result]) => [method, JSON.stringify(result)]))

const respondToOne = ({ id, method }: RpcRequest): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${results.get(method) ?? 'null'}}`
