import type { RefusalKind, Reply } from '../plugin/reply.ts'
import type { RpcContext } from './rpc-context.ts'

/** Gives back what these calls have cost, as the door cannot deliver their answers. Never throws; `outcome` is what the caller gets instead. */
export const refundCharges = ({ log }: Pick<RpcContext, 'log'>, replies: readonly Reply[], outcome: RefusalKind): void => {
  for (const { charge } of replies) {
    try {
      charge?.refund(outcome)
    } catch (bug) {
      log.error({ err: bug }, 'a charge could not be given back because of a bug')
    }
  }
}
