import upstream from '../../../plugins/upstream/index.ts'
import type { Call, ContextKey } from '../../../src/plugin/call.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import type { Heads, Services, UpstreamClient } from '../../../src/services/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { createStage, unreachableNext } from '../../support/fakes.ts'

interface GivenServices extends Partial<Omit<Services, 'heads'>> {
  /** What the test needs of them. */
  readonly heads?: object
}

/** The plugin over nodes that answer by this function. */
export const openUpstream = (request: UpstreamClient['request'], { heads, ...services }: GivenServices = {}, options: object = {}) => {
  const stage = createStage(
    upstream,
    { timeout: 30_000, maxBytes: 1 << 20, probeAfter: 2000, maxChunks: 16, ...options },
    {
      methods: shippedMethods,
      upstreamClient: { request, disconnects: () => 0 },
      ...services,
      ...(heads && { heads: heads as Heads }), // the part that the plugin reads in that test
    },
  )
  return (call: Call<ContextKey>): Promise<Reply> => stage.handle(call, unreachableNext)
}
