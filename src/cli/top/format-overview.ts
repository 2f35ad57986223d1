import { plain } from '../../util/style.ts'
import type { Style } from '../../util/style.ts'
import { formatTable } from '../table-output.ts'
import type { GatewayOverview, NetworkOverview, NodeOverview, Overview } from './overview.ts'

/** The overview as lines of a terminal. */
export const formatOverview = ({ gateway, networks }: Overview, style = plain): readonly string[] => [
  formatGateway(gateway, style),
  '',
  ...formatTable(networkTitles, networks.map(networkCells), style),
  '',
  ...formatTable(
    nodeTitles,
    networks.flatMap(({ network, nodes }) => nodes.map(node => nodeCells(network, node))),
    style,
  ),
]

const unknown = '-'
const bytesPerMiB = 1_048_576

const formatGateway = (gateway: GatewayOverview, style: Style): string =>
  [
    `connections ${formatNumber(gateway.connections)}`,
    `websockets ${formatNumber(gateway.websockets)}`,
    `in flight ${formatMiB(gateway.inFlightBytes)} of ${formatMiB(gateway.inFlightMaxBytes)}`,
    `memory ${formatMiB(gateway.residentBytes)}`,
    `cpu ${formatShare(gateway.cpu)}`,
    `loop lag ${formatMs(gateway.eventLoopLagMs)}`,
    ...(gateway.storeErrorsPerSecond > 0 ? [style('error', `STORE ERRORS ${formatRate(gateway.storeErrorsPerSecond)}/s`)] : []),
  ].join('   ')

const networkTitles = ['NETWORK', 'CALLS/S', 'P50', 'P99', 'CACHE', 'FAILED', 'CREDITS/S', 'IN FLIGHT', 'HEAD']

const networkCells = (each: NetworkOverview): readonly string[] => [
  each.network,
  formatRate(each.callsPerSecond),
  formatMs(each.p50Ms),
  formatMs(each.p99Ms),
  formatShare(each.cacheHits),
  formatShare(each.failedCalls),
  formatRate(each.creditsPerSecond),
  formatNumber(each.inFlight),
  formatNumber(each.head),
]

const nodeTitles = ['NODE', 'NETWORK', 'REQUESTS/S', 'P50', 'P99', 'IN FLIGHT', 'FAILURES/S', 'HEAD', 'LAG', 'STATE']

const nodeCells = (network: string, each: NodeOverview): readonly string[] => [
  each.upstream,
  network,
  formatRate(each.requestsPerSecond),
  formatMs(each.p50Ms),
  formatMs(each.p99Ms),
  formatNumber(each.inFlight),
  formatRate(each.failuresPerSecond),
  formatNumber(each.head),
  formatNumber(each.lagBlocks),
  each.problems.length === 0 ? 'ok' : each.problems.join(', '),
]

const formatNumber = (value: number | undefined): string => (value === undefined ? unknown : String(value))
const formatRate = (value: number): string => (value >= 100 || value === 0 ? value.toFixed(0) : value.toFixed(1))
const formatMs = (value: number | undefined): string =>
  value === undefined ? unknown : value >= 10 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`
const formatShare = (value: number | undefined): string => (value === undefined ? unknown : `${(100 * value).toFixed(1)} %`)
const formatMiB = (value: number | undefined): string => (value === undefined ? unknown : `${(value / bytesPerMiB).toFixed(0)} MiB`)
