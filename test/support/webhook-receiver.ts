import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface ReceivedMessage {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  // biome-ignore lint/suspicious/noExplicitAny: tests read members that they then compare
  readonly json: any
}

/** A real HTTP server that takes webhooks. Answers 204 unless told otherwise; 0 is no answer at all. */
export const startWebhookReceiver = async () => {
  const received: ReceivedMessage[] = []
  let connections = 0
  let answer: { readonly status: number; readonly headers?: Readonly<Record<string, string>> } = { status: 204 }
  const server = http.createServer(async (request, response) => {
    const body = await text(request)
    received.push({ path: request.url ?? '', headers: request.headers, body, json: JSON.parse(body) })
    if (answer.status !== 0) response.writeHead(answer.status, answer.headers).end()
  })
  server.on('connection', () => (connections += 1))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}/hook`,
    received,
    get connections() {
      return connections
    },
    answerWith(status: number, headers: Readonly<Record<string, string>> = {}) {
      answer = { status, headers }
    },
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Checks a signature as a receiver does that has read https://www.standardwebhooks.com and nothing of this project. */
export const isSigned = ({ headers, body }: Pick<ReceivedMessage, 'headers' | 'body'>, secret: string): boolean => {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`).digest()
  return String(headers['webhook-signature'])
    .split(' ')
    .map(signature => Buffer.from(signature.replace(/^v1,/, ''), 'base64'))
    .some(signature => signature.length === expected.length && timingSafeEqual(signature, expected))
}
