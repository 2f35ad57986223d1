import type { AnyPlugin } from '../src/plugin/plugin.ts'
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
import verify from './verify/index.ts'

/** The built-in plugins. */
export const plugins: readonly AnyPlugin[] = [
  envelope,
  keyAuth,
  networkAccess,
  rateLimit,
  credits,
  params,
  subscriptions,
  cache,
  failover,
  verify,
  upstream,
]
