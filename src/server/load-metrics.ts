import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Metrics } from '../services/metrics.ts'
import type { OpenConnections } from './http-server.ts'
import type { RpcServices } from './rpc-services.ts'
import type { WsConnections } from './websocket.ts'

interface CallerConnections {
  readonly connections: Pick<OpenConnections, 'count'>
  readonly wsConnections: Pick<WsConnections, 'count'>
}

/** What callers take of the RPC listener, measured when metrics are read. */
export const measureLoad = (
  metrics: Metrics,
  { scheduler, memoryBudget }: Pick<RpcServices, 'scheduler' | 'memoryBudget'>,
  { connections, wsConnections }: CallerConnections,
): void => {
  const connectionCount = metrics.gauge(metricDefinitions.connections, {})
  const websocketCount = metrics.gauge(metricDefinitions.websockets, {})
  const waitingMessages = metrics.gauge(metricDefinitions.waitingMessages, {})
  const inFlightBytes = metrics.gauge(metricDefinitions.inFlightBytes, {})
  metrics.gauge(metricDefinitions.inFlightMaxBytes, {}).set(memoryBudget.maxBytes)
  metrics.collect(() => {
    connectionCount.set(connections.count)
    websocketCount.set(wsConnections.count)
    waitingMessages.set(scheduler.waitingCount)
    inFlightBytes.set(memoryBudget.reservedBytes)
  })
}
