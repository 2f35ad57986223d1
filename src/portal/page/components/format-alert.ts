import type { AlertsJson } from '../../alerts/manage-alerts.ts'
import { formatLatency } from '../format.ts'
import { texts } from '../texts.ts'

const text = texts.alert

/** `75 %`, `75 % of the key indexer …7maA`, `5 % failed`, `p95 1.00 s`. */
export const formatAlert = ({
  type,
  threshold,
  key,
  network,
}: Pick<AlertsJson['deliveries'][number], 'type' | 'threshold' | 'key' | 'network'>): string => {
  switch (type) {
    case 'credits.threshold':
      return key === null ? `${threshold} %` : `${threshold} % ${text.ofKey} ${key}`
    case 'errors.threshold':
      return `${threshold} % ${text.failed}`
    case 'latency.threshold':
      return `p95 ${formatLatency(threshold)}`
    case 'incident.began':
      return `${network}: ${text.outage}`
    case 'incident.ended':
      return `${network}: ${text.outageEnded}`
  }
}
