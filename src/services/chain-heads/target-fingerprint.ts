import { createHash } from 'node:crypto'
import type { Target } from '../../plugin/call.ts'
import { getOrCreate } from '../../util/memoize.ts'

const fingerprints = new WeakMap<Target, string>()

/** Identifies the node behind a target in every process of the gateway, without its secrets. */
export const fingerprintOf = (target: Target): string =>
  getOrCreate(fingerprints, target, ({ url }) => createHash('sha256').update(url.reveal()).digest('base64url'))
