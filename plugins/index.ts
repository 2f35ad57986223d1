import { deferPlugin } from '../src/plugin/internal.ts'
import type { LoadablePlugin } from '../src/plugin/internal.ts'
import cache from './cache/index.ts'
import credits from './credits/index.ts'
import envelope from './envelope.ts'
import failover from './failover/index.ts'
import keyAuth from './key-auth.ts'
import networkAccess from './network-access.ts'
import params from './params.ts'
import rateLimit from './rate-limit.ts'
import subscriptions from './subscriptions/index.ts'
import upstream from './upstream/index.ts'
import { definition as verify } from './verify/definition.ts'

/** The built-in plugins. */
export const plugins: readonly LoadablePlugin[] = [
  envelope,
  keyAuth,
  networkAccess,
  rateLimit,
  credits,
  params,
  subscriptions,
  cache,
  failover,
  // Of all plugins the largest, and few pipelines have it.
  deferPlugin(verify, () => import('./verify/index.ts')),
  upstream,
]
