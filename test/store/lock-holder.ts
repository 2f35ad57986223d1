import { open } from 'lmdb'

// Holds the lock of the store in argv[2] until it is killed.
const root = open({ path: process.argv[2] ?? '', noSubdir: false, encoding: 'json', overlappingSync: false })
root.transactionSync(() => {
  process.stdout.write('locked\n')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
})
