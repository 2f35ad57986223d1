import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
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

/** Parses the request and returns a constant: the minimum that a JSON-RPC server must do. */
export const respond = (text: string): string => {
  const request = JSON.parse(text) as RpcRequest | RpcRequest[] // only the benchmark sends requests here
  return Array.isArray(request) ? `[${request.map(respondToOne).join()}]` : respondToOne(request)
}

const results = new Map(Object.entries(cannedResults).map(([method, result]) => [method, JSON.stringify(result)]))

const respondToOne = ({ id, method }: RpcRequest): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${results.get(method) ?? 'null'}}`

/** Connections stay open while the other servers of a case have their turn. */
const keepAliveTimeoutMs = 65_000

/** Listens on the loopback interface, and prints the same line as the gateway. */
export const listenAndAnnounce = async (server: Server, port = 0): Promise<void> => announce(await listen(server, port))

/** Resolves with the port. */
export const listen = async (server: Server, port = 0): Promise<number> => {
  server.keepAliveTimeout = keepAliveTimeoutMs
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port // the address of a TCP server is always an AddressInfo
}

export const announce = (port: number): void =>
  void process.stdout.write(`${JSON.stringify({ event: 'listening', rpc: `http://127.0.0.1:${port}` })}\n`)
