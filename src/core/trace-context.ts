import type { Origin } from '../plugin/call.ts'

/** W3C Trace Context, version 00: neither id is all zeros. */
const traceparentPattern = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/

/** The trace that a caller has sent; undefined where there is none, or it is not well-formed. */
export const readTraceparent = ({ headers }: Pick<Origin, 'headers'>): string | undefined => {
  const { traceparent } = headers
  return typeof traceparent === 'string' && traceparentPattern.test(traceparent) ? traceparent : undefined
}
