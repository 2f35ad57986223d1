import type { NetworkState, NodeCondition } from '../server/network-status.ts'
import type { NodeReason } from '../services/node-reasons.ts'

/** How people are told of the state of a network: in the pages. A node and the store are up or down by the same words. */
export const networkStateLabels: Readonly<Record<NetworkState, string>> = {
  ok: 'up',
  degraded: 'degraded',
  stalled: 'no new blocks',
  down: 'down',
  unknown: 'idle',
}

/** And of that of a node: in the page of operators, and by `tollgate nodes list`. */
export const nodeConditionLabels: Readonly<Record<NodeCondition, string>> = {
  usable: 'up',
  notUsable: 'down',
  reduced: 'degraded',
  drained: 'drained',
  unknown: 'unknown',
}

/** Why a node gets no calls, or fewer; `nodeReasons` says more of each. */
export const nodeReasonLabels: Readonly<Record<NodeReason, string>> = {
  chain: 'on another chain',
  unverified: 'chain not known',
  lag: 'lagging',
  ahead: 'implausible head',
  breaker: 'circuit breaker open',
  rateLimited: 'rate limited (429)',
  drained: 'drained',
  rateSpent: 'its rate is spent',
  lied: 'wrong results',
  suspect: 'hanging',
  recovering: 'recovering',
  slow: 'slow',
}

/** For operators whose gateway.yaml has no receiver in `portal.operatorAlerts`: on their page, and by `tollgate alerts operators`. */
export const noAlertReceivers =
  'nobody is alerted by this gateway: set `portal.operatorAlerts` in gateway.yaml, to `{}` if Prometheus alerts you'

const kindLabels: Readonly<Record<string, string>> = { ...networkStateLabels, ...nodeConditionLabels, ...nodeReasonLabels }

/** Of an incident: that of a plugin has its own name, and `TollgateEventLoopLag`, an alert rule, is `event loop lag`. */
export const nameOfKind = (kind: string): string =>
  kindLabels[kind] ??
  kind.replace(/^Tollgate[A-Z].*/, name =>
    name
      .slice(8)
      .replace(/\B[A-Z]/g, ' $&')
      .toLowerCase(),
  )

/** What calls came to, and what pages ask for of them. */
export const outcomeLabels = {
  ok: 'Successful',
  failed: 'Failed',
  slow: 'Slow',
  node: 'Node error',
  parse: 'Invalid JSON',
  invalid: 'Invalid request',
  method: 'Unknown method',
  params: 'Invalid params',
  tooMany: 'Too many results',
  timeout: 'Query timeout',
  notMined: 'Not mined yet',
  tooLarge: 'Response too large',
  key: 'Invalid key',
  forbidden: 'Not allowed',
  spent: 'Credits used up',
  rate: 'Rate limited',
  tooManySubscriptions: 'Too many subscriptions',
  unknownSubscription: 'Unknown subscription',
  failing: 'Too many failures',
  unavailable: 'No node answered',
  internal: 'Internal error',
} as const
