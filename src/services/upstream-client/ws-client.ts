import { requestIdOf } from '../../json-rpc/parse-response.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { Endpoint } from './endpoint.ts'
import type { HttpClient } from './http-client.ts'
import { WsConnection } from './node-websocket.ts'

/** The same client, which sends requests to endpoints with ws:// or wss:// over WebSockets, one for each endpoint. */
export const withWebSockets = (httpClient: HttpClient, clock: Clock, random: () => number = Math.random): HttpClient => {
  const connections = new Map<string, WsConnection>()
  const connectionsByEndpoint = new WeakMap<Endpoint, WsConnection>()
  const connectionOf = (endpoint: Endpoint): WsConnection =>
    // Of the headers of requests the upgrade has only the credentials: those of one request, such as its trace, make no other connection.
    getOrCreate(connectionsByEndpoint, endpoint, ({ origin, path, credentials }) =>
      getOrCreate(
        connections,
        JSON.stringify([origin, path, credentials]),
        () => new WsConnection({ url: origin + path, headers: credentials, clock, random }),
      ),
    )
  return {
    post: (endpoint, body, handler, idempotent) =>
      isWebSocket(endpoint)
        ? connectionOf(endpoint).send(requestIdOf(body), body, handler, idempotent)
        : httpClient.post(endpoint, body, handler, idempotent),
    disconnects: endpoint => (isWebSocket(endpoint) ? connectionOf(endpoint).disconnects : httpClient.disconnects(endpoint)),
    async close() {
      for (const connection of connections.values()) connection.close()
      await httpClient.close()
    },
  }
}

const isWebSocket = ({ origin }: Endpoint): boolean => origin.startsWith('ws')
