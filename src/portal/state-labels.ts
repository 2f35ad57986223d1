import type { NetworkState, NodeCondition } from '../server/network-status.ts'

/** How people are told of the state of a network: in the pages. */
export const networkStateLabels: Readonly<Record<NetworkState, string>> = {
  ok: 'healthy',
  degraded: 'fewer nodes',
  stalled: 'no new blocks',
  down: 'unavailable',
  unknown: 'idle',
}

/** And of that of a node: in the page of operators, and by `tollgate nodes list`. */
export const nodeConditionLabels: Readonly<Record<NodeCondition, string>> = {
  usable: 'usable',
  notUsable: 'not usable',
  reduced: 'fewer calls',
  drained: 'drained',
  unknown: 'unknown',
}
