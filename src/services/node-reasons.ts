/** Stands for the calls of every class of methods. */
export const allClasses = 'all'

/** With the class of methods that it is about, unless that is every one. */
export const formatByClass = (name: string, methodClass: string): string => (methodClass === allClasses ? name : `${name}: ${methodClass}`)

/** Why a node gets no calls, or fewer than usual. */
export const nodeReasons = {
  chain: { keepsAway: true, text: 'it is on another chain' },
  unverified: { keepsAway: true, text: 'it has not returned its chain ID' },
  lag: { keepsAway: false, text: 'its head lags too far behind: it is requested last' },
  ahead: { keepsAway: false, text: 'its head is implausibly high: it is requested last' },
  breaker: {
    keepsAway: true,
    text: 'a circuit breaker is open, as too many calls failed: the node gets them again once a probe succeeds',
  },
  rateLimited: { keepsAway: true, text: 'it has answered 429: no calls for its Retry-After, or a time that doubles' },
  drained: { keepsAway: true, text: 'an operator has drained it: no new calls until it is put back' },
  rateSpent: { keepsAway: true, text: 'its `rate` is spent' },
  lied: {
    keepsAway: true,
    text: 'it has returned what is proven wrong: no calls of the class until it has answered right 100 times, beside others or by proof, or operators clear its evidence',
  },
  suspect: { keepsAway: false, text: 'calls take far longer than usual: other upstreams are requested first, for 1 s or more' },
  recovering: { keepsAway: false, text: 'after a suspicion or an open breaker the share of calls grows from 5 % to all' },
  slow: {
    keepsAway: false,
    text: 'for 30 s its 95th percentile was 4 times that of the fastest upstream, and 100 ms more: its share is their ratio, at least 10 %',
  },
} as const satisfies Readonly<Record<string, { readonly keepsAway: boolean; readonly text: string }>>

export type NodeReason = keyof typeof nodeReasons

const hungText = 'a circuit breaker is open, as the node hangs: it gets calls again once a probe succeeds'

/** A breaker of all classes opens when the node hangs, that of one class when too many of its calls failed. */
export const textOfReason = (reason: NodeReason, methodClass: string): string =>
  reason === 'breaker' && methodClass === allClasses ? hungText : nodeReasons[reason].text

/** Why a node is excluded: it is on another chain, its chain is not known, its head lags too far, or its head is implausibly high. */
export type ExclusionReason = (typeof exclusionReasons)[number]

export const exclusionReasons = ['chain', 'unverified', 'lag', 'ahead'] as const satisfies readonly NodeReason[]
