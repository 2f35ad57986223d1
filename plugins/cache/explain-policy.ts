import type { CachePolicy } from '../../src/plugin/plugin.ts'

/** What `tollgate explain` says of a cache policy. */
export const explainPolicy = (policy: CachePolicy): string =>
  policy === 'never' ? explanations.never : `${explanations[policy]}; identical calls in flight share one upstream call`

const explanations: Readonly<Record<CachePolicy, string>> = {
  never: 'not cached: each call reaches a node',
  latest: 'cached until there is a newer block',
  block: 'cached as long as the block that the parameters name: until there is a newer block, and for good once it is final',
  mined: 'cached as long as the block that the result names, and for good once it is final; `null` is not cached',
}
