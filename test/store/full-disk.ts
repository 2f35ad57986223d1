import { spawnSync } from 'node:child_process'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'

// Writes to a store until a write fails. Prints the error, and whether writes succeed again when there is room.
process.on('SIGXFSZ', () => {})
const store = await openStore({ kind: 'lmdb', path: process.argv[2] ?? '' }, systemClock)
const write = (i: number) => store.addAccount({ id: `acc_${i}`, name: `${i}`.repeat(200), plan: 'core', created: i })
const writes = async (from: number, to: number): Promise<boolean> => {
  for (let i = from; i < to; i += 1) if (!(await write(i))) return false
  return true
}
try {
  await writes(0, 10_000)
} catch (error) {
  const again = await write(10_000).catch((reason: unknown) => reason)
  const { name, message } = again instanceof Error ? again : (error as Error) // only Errors are thrown here
  const row = await store.account('acc_0')
  // Not every system has prlimit.
  const hasRoom = spawnSync('prlimit', [`--pid=${process.pid}`, '--fsize=unlimited']).status === 0
  const recovers = !hasRoom || (await writes(10_001, 10_500))
  process.stdout.write(JSON.stringify({ name, message, readable: row?.created === 0, recovers }))
}
await store.close()
