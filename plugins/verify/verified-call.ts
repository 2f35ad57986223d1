import type { Call, Next } from '../../src/plugin/plugin.ts'

type VerifyContext = 'request' | 'target' | 'upstreams'

/** A call as the plugin gets it. */
export type VerifiedCall = Call<VerifyContext>
/** The plugin below, which sends the call to its node. */
export type NextPlugin = Next<VerifyContext>
