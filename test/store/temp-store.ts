import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Clock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Store } from '../../src/store/store.ts'

/** A folder that is removed after the test. */
export const tempFolder = async (t: Test): Promise<string> => {
  const path = await mkdtemp(join(tmpdir(), 'tollgate-'))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

/** An embedded store in a folder of its own. */
export const tempStore = async (t: Test, clock: Clock): Promise<Store> => {
  const store = await openStore({ kind: 'lmdb', path: await tempFolder(t) }, clock)
  t.teardown(() => store.close())
  return store
}
