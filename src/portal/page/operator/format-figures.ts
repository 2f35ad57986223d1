import { severityOfFailures } from '../../failure-share.ts'
import type { Tone } from '../components/badge.tsx'
import { formatNumber } from '../format.ts'
import { operatorTexts } from './operator-texts.ts'

type Figure = number | null | undefined

const formatOr = (value: Figure, format: (value: number) => string): string => (value === null || value === undefined ? '–' : format(value))

/** Of calls or credits a second: three digits say enough. */
export const formatRate = (value: Figure): string =>
  formatOr(value, rate => (rate >= 100 || Number.isInteger(rate) ? formatNumber(Math.round(rate)) : rate.toPrecision(2)))

export const formatCores = (value: Figure): string => formatOr(value, cores => cores.toFixed(2))

/** A share from 0 to 1. */
export const formatShare = (value: Figure): string =>
  formatOr(value, share => `${(100 * share).toFixed(share >= 0.0995 || share === 0 ? 0 : 1)} %`)

/** Of a share that is one of several: with its decimal, and never all or nothing where it is not. */
export const formatPart = (value: Figure): string =>
  formatOr(value, share => {
    if (share === 0 || share === 1) return `${100 * share} %`
    return share < 0.001 ? '< 0.1 %' : `${Math.min(99.9, 100 * share).toFixed(1)} %`
  })

/** `in the last 9 s`. */
export const inTheLast = (seconds: number): string => `${operatorTexts.home.inTheLast} ${Math.round(seconds)}\u00a0s`

const tonesOfFailures = { critical: 'danger', warning: 'warn' } as const

/** Of the failed calls among all. */
export const toneOfFailures = (counts: Parameters<typeof severityOfFailures>[0]): Tone => {
  const severity = severityOfFailures(counts)
  return severity === undefined ? 'neutral' : tonesOfFailures[severity]
}

/** Of a failed call: red is what operators can mend. */
/** `; gateway errors 3, caller errors 20`. */
export const formatFaults = ({ byGateway, byCaller }: { readonly byGateway: number; readonly byCaller: number }): string =>
  `; ${operatorTexts.gatewayErrors.toLowerCase()} ${formatNumber(byGateway)}, ${operatorTexts.callerErrors.toLowerCase()} ${formatNumber(byCaller)}`

export const toneOfFault = ({ byGateway }: { readonly byGateway: boolean }): Tone => (byGateway ? 'danger' : 'neutral')

const bytesPerMiB = 1_048_576

export const toMiB = (bytes: number | null): number | null => (bytes === null ? null : bytes / bytesPerMiB)

export const formatMiB = (value: Figure): string => formatOr(value, bytes => `${formatNumber(Math.round(bytes / bytesPerMiB))} MiB`)

export const formatCount = (value: Figure): string => formatOr(value, formatNumber)
