import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Labels, MetricFamily } from '../services/metrics.ts'
import { storeEmptied, storeOutages } from '../services/ledger/store-outage.ts'
import type { StoreOutage } from '../services/ledger/store-outage.ts'

/** The labels of the series of a gauge that are 1. */
const activeSeries = (families: readonly MetricFamily[], metric: { readonly name: string }): readonly Labels[] =>
  families
    .filter(({ name }) => name === metric.name)
    .flatMap(({ series }) => series)
    .flatMap(({ labels, values }) => (values[0] === 1 ? [labels] : []))

/** The store in `/readyz?verbose`, as the process has it that sees it worst. */
interface StoreStatus {
  readonly usable: boolean
  /** Why it cannot be used, and the same in words. */
  readonly outage?: StoreOutage
  readonly reason?: string
}

export const storeStatusOf = (families: readonly MetricFamily[]): StoreStatus => {
  const reasons = activeSeries(families, metricDefinitions.storeUnavailable).map(({ reason = '' }) => reason)
  const outage = storeOutages.find(each => reasons.includes(each))
  return outage === undefined ? { usable: true } : { usable: false, outage, reason: storeOutageTexts[outage] }
}

export const storeOutageTexts: Readonly<Record<StoreOutage, string>> = {
  emptied: `the store ${storeEmptied}`,
  removed: 'the files of the store were removed or replaced while it was in use: put them back where they were, or restart the gateway',
  unreachable:
    'the store does not answer or fails: the log has its error; calls are charged to credits that are already leased, then refused (503) unless `onStoreOutage` grants more',
}
