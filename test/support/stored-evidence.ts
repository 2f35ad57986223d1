import { join } from 'node:path'
import { systemClock } from '../../src/services/clock.ts'
import { EvidenceWriter } from '../../src/services/evidence.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Deployment } from './deployment.ts'
import { TestLog } from './fakes.ts'

/** Writes evidence that a node has lied to the store of a deployment whose gateway does not run yet; returns its id. */
export const storeEvidence = async (
  { dir }: Deployment,
  { network, upstream }: { readonly network: string; readonly upstream: string },
): Promise<string> => {
  const store = await openStore({ kind: 'lmdb', path: join(dir, '../data') }, systemClock)
  const writer = new EvidenceWriter({ store, clock: systemClock, log: new TestLog() })
  const id = writer.of(network).add({
    upstream,
    methodClass: 'light',
    cause: 'receipts are not those of the header',
    request: { method: 'eth_getBlockReceipts', params: ['0x10'] },
    answer: Buffer.from('[]'),
    header: { number: 16 },
  })
  await writer.whenIdle()
  await store.close()
  if (id === undefined) throw new Error('no evidence was stored')
  return id
}
