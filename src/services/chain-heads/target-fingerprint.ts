import { createHash } from 'node:crypto'
import type { Target } from '../../plugin/call.ts'
import { revealSecrets } from '../../plugin/secret.ts'
import { getOrCreate } from '../../util/memoize.ts'

const fingerprints = new WeakMap<Target, string>()

/** Identifies the node behind a target in every process of the gateway, without its secrets. */
export const fingerprintOf = (target: Target): string =>
  getOrCreate(fingerprints, target, ({ url, headers = {} }) =>
    createHash('sha256')
      .update(JSON.stringify(revealSecrets([url, headers])))
      .digest('base64url'),
  )
