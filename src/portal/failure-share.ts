interface FailureCounts {
  readonly calls: number
  /** By the fault of nodes or of the gateway. */
  readonly failedCalls: number
}

/** Of fewer calls, a share says little. */
export const minCallsForShare = 20

/** Undefined where the share of failed calls is of no concern: by it both alerts and colors of the pages are decided. */
export const severityOfFailures = ({ calls, failedCalls }: FailureCounts): 'critical' | 'warning' | undefined => {
  if (calls < minCallsForShare) return undefined
  const share = failedCalls / calls
  return share > 0.02 ? 'critical' : share > 0.005 ? 'warning' : undefined
}
