import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'

// Adds an account with the name argv[3] to the store in argv[2].
const [, , path = '', name = ''] = process.argv
const store = await openStore({ kind: 'lmdb', path }, systemClock)
await store.addAccount({ id: `acc_of_${name}`, name, plan: 'core', created: 1 })
await store.close()
