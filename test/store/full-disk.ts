import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open.ts'

// Writes to a store until that fails, then says how it failed.
process.on('SIGXFSZ', () => {})
const store = await openStore({ kind: 'lmdb', path: process.argv[2] ?? '' }, systemClock)
const write = (i: number) =>
  store.addAccount({ id: `acc_${i}`, name: `${i}`.repeat(200), plan: 'core', created: i })
try {
  for (let i = 0; i < 10_000; i += 1) await write(i)
} catch (error) {
  const again = await write(10_000).catch((fault: unknown) => fault)
  const { name, message } = again instanceof Error ? again : error as Error // only Errors are thrown here
  const row = await store.account('acc_0')
  process.stdout.write(JSON.stringify({ name, message, readable: row?.created === 0 }))
}
await store.close()
