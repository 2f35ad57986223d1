import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, readdir, stat, writeFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from '../support/tap.ts'
import { assertIntactDataFile } from '../../src/store/lmdb/data-file-check.ts'
import { assertNotLocked } from '../../src/store/lmdb/store-lock.ts'
import { systemClock } from '../../src/services/clock.ts'
import { backupStore, inspectStore, openStore } from '../../src/store/open-store.ts'
import { withTimeout } from '../../src/util/async.ts'
import { TestClock } from '../support/fakes.ts'
import { tempFolder } from './temp-store.ts'

const run = promisify(execFile)
const clock = new TestClock()
const openAt = (path: string) => openStore({ kind: 'lmdb', path }, clock)

t.test('a store refuses a file that was cut off or damaged, and leaves it as it is: LMDB would end the process', async t => {
  const path = await tempFolder(t)
  const store = await openAt(path)
  for (let i = 0; i < 200; i += 1) await store.addAccount({ id: `acc_${i}`, name: `name-${i}`, plan: 'core', created: i })
  await store.close()
  const file = join(path, 'data.mdb')
  const intact = await readFile(file)
  const pageBytes = 4_096
  const pages = intact.length / pageBytes
  const write = (at: number, bytes: Uint8Array) => {
    const copy = Buffer.from(intact)
    copy.set(bytes, at)
    return copy
  }
  /** The roots of the tables are in the page that the newest of the two first pages names. */
  const metas = [0, pageBytes].map(at => ({
    transaction: intact.readBigUInt64LE(at + 152),
    root: Number(intact.readBigUInt64LE(at + 136)),
  }))
  const { root } = metas.reduce((newest, meta) => (meta.transaction > newest.transaction ? meta : newest))
  const damages = {
    ...Object.fromEntries(
      [100, pageBytes, 3 * pageBytes, (root + 0.5) * pageBytes].map(bytes => [`cut to ${bytes}`, intact.subarray(0, bytes)]),
    ),
    'the first page is none': write(0, Buffer.alloc(pageBytes, 7)),
    'the second page is none': write(pageBytes, Buffer.alloc(pageBytes)),
    'pages of no bytes': write(48, Buffer.alloc(4)),
    'an empty root': write(root * pageBytes, Buffer.alloc(pageBytes)),
    'a root of noise': write(root * pageBytes + 24, Buffer.alloc(pageBytes - 24, 0xa7)),
    'another page as the root': write(
      root * pageBytes,
      intact.subarray(((root + 1) % pages) * pageBytes, (((root + 1) % pages) + 1) * pageBytes),
    ),
  }
  for (const [name, bytes] of Object.entries(damages)) {
    await writeFile(file, bytes)
    await t.rejects(openAt(path), { name: 'StoreError', message: /data\.mdb is not a store, or it is damaged \(/ }, name)
    t.ok(bytes.equals(await readFile(file)), 'it is not written to')
  }
  await writeFile(file, intact)
  const again = await openAt(path)
  t.match(await again.account('name-199'), { id: 'acc_199' })
  await again.close()
})

t.test('an empty file is no new store, unless another process is just creating it', async t => {
  const path = await tempFolder(t)
  const store = await openAt(path)
  await store.addAccount({ id: 'acc_1', name: 'one', plan: 'core', created: 1 })
  await store.close()
  const file = join(path, 'data.mdb')
  const intact = await readFile(file)
  await writeFile(file, '')
  await t.rejects(openAt(path), { name: 'StoreError', message: /data\.mdb is empty.*: restore it from a backup, or delete it/ })
  t.equal((await stat(file)).size, 0)
  const opening = openAt(path)
  await writeFile(file, intact)
  const again = await opening
  t.match(await again.account('one'), { id: 'acc_1' })
  await again.close()
  await rm(file)
  const newStore = await openAt(path)
  t.equal(await newStore.account('one'), undefined)
  await newStore.close()
})

t.test('a store can be opened while others write to it: a page that is used anew is no damage', async t => {
  const path = await tempFolder(t)
  const writer = await openAt(path)
  t.teardown(() => writer.close())
  let isDone = false
  const writing = (async () => {
    for (let i = 0; !isDone; i += 1) await writer.addAccount({ id: `acc_${i}`, name: `${i}`.repeat(50), plan: 'core', created: i })
  })()
  for (let i = 0; i < 50; i += 1) await assertIntactDataFile(join(path, 'data.mdb'))
  isDone = true
  await writing
})

t.test('a store is readable for its owner alone, also when an older Tollgate made it', async t => {
  const path = await tempFolder(t)
  const rights = async () => Promise.all(['data.mdb', 'lock.mdb'].map(async name => (await stat(join(path, name))).mode & 0o777))
  await (await openAt(path)).close()
  t.same(await rights(), [0o600, 0o600])
  await chmod(join(path, 'data.mdb'), 0o644)
  await (await openAt(path)).close()
  t.same(await rights(), [0o600, 0o600])
})

// For root no file is another's.
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
const writeOnce = join(import.meta.dirname, 'write-once.js')
const isReadable = await run(process.execPath, ['--check', writeOnce], nobody).then(
  () => true,
  () => false,
)

t.test(
  'a store with a file of another user is refused with the name of the file: LMDB would crash',
  { skip: !isReadable && 'the files of the tests are readable for root alone' },
  async t => {
    const path = await tempFolder(t)
    await (await openAt(path)).close()
    await chmod(path, 0o777)
    const names = ['data.mdb', 'lock.mdb']
    for (const name of names) {
      for (const each of names) await chmod(join(path, each), each === name ? 0o400 : 0o666)
      const failed = await run(process.execPath, [writeOnce, path, 'alice'], { timeout: 20_000, ...nobody }).then(
        () => undefined,
        (error: { readonly stderr: string; readonly signal: string | null }) => error,
      )
      t.equal(failed?.signal, null)
      t.match(failed?.stderr, new RegExp(`StoreError: cannot use the store: EACCES: .*${name}'; let .* read and write this file`))
    }
  },
)

t.test(
  'is not created on a disk without room for it',
  { skip: process.getuid?.() !== 0 && 'only root can mount a small disk' },
  async t => {
    for (const kib of [4, 8, 20, 64, 100]) {
      const disk = await tempFolder(t)
      const mounted = await run('mount', ['-t', 'tmpfs', '-o', `size=${kib}k`, 'tmpfs', disk]).catch(() => undefined)
      if (mounted === undefined) break
      t.teardown(() => run('umount', [disk]))
      const path = join(disk, 'data')
      await t.rejects(openAt(path), {
        name: 'StoreError',
        message: /^cannot create the store in .*no space left on device.*; make room on its disk$/,
      })
      t.same(await readdir(path), [], 'nothing is left behind')
    }
  },
)

t.test('a process that opens its store a second time keeps its locks: other processes open the store, and it goes on writing', async t => {
  const path = await tempFolder(t)
  const stores = await Promise.all([openAt(path), openAt(path)])
  const [gateway] = stores
  t.teardown(() => gateway.close())
  await (await openAt(path)).close()
  await stores[1].close()
  const script = join(import.meta.dirname, 'write-once.js')
  for (const name of ['first', 'second']) {
    await run(process.execPath, [script, path, name], { timeout: 20_000 })
    t.ok(await withTimeout(systemClock, 10_000, gateway.addAccount({ id: `acc_${name}`, name: `${name}-here`, plan: 'core', created: 1 })))
  }
  t.equal((await gateway.account('second'))?.name, 'second')
})

t.test('a process that looks at its open store, or closes it while it opens it, keeps its locks', async t => {
  const path = await tempFolder(t)
  let gateway = await openAt(path)
  t.teardown(() => gateway.close())
  const writeBoth = async (name: string) => {
    await run(process.execPath, [join(import.meta.dirname, 'write-once.js'), path, name], { timeout: 20_000 })
    t.ok(await withTimeout(systemClock, 10_000, gateway.addAccount({ id: `acc_${name}`, name: `${name}-here`, plan: 'core', created: 1 })))
  }
  await inspectStore({ kind: 'lmdb', path }, clock)
  await backupStore({ kind: 'lmdb', path }, clock, join(await tempFolder(t), 'backup'))
  for (let i = 0; i < 10; i += 1) [gateway] = await Promise.all([openAt(path), gateway.close()])
  for (let i = 0; i < 10; i += 1) [, gateway] = await Promise.all([gateway.close(), openAt(path)])
  await writeBoth('first')
  await writeBoth('second')
  t.equal((await gateway.accounts()).length, 4)
})

t.test(
  'a commit that LMDB forgets while another process opens the store is not overwritten: writers wait until it is found again',
  async t => {
    for (const forgotten of [1, 2]) {
      const path = await tempFolder(t)
      const store = await openAt(path)
      t.teardown(() => store.close())
      const add = (name: string) => store.addAccount({ id: `acc_${name}`, name, plan: 'core', created: 1 })
      for (const name of ['a', 'b', 'c']) await add(name)
      // As open() of LMDB does. In a process of its own, as this one would lose its locks.
      const script = `const fs = require('node:fs'); const file = fs.openSync(process.argv[1], 'r+'); const number = Buffer.alloc(8)
      fs.readSync(file, number, 0, 8, 8); number.writeBigUInt64LE(number.readBigUInt64LE() - ${forgotten}n); fs.writeSync(file, number, 0, 8, 8)`
      await run(process.execPath, ['-e', script, join(path, 'lock.mdb')])
      const adding = add('d')
      await run(process.execPath, [join(import.meta.dirname, 'write-once.js'), path, 'e'], { timeout: 20_000 })
      t.ok(await adding)
      t.same(
        (await store.accounts()).map(({ name }) => name),
        ['a', 'b', 'c', 'd', 'e'],
      )
      t.equal(await store.changeCount(), 5)
    }
  },
)

t.test('a store that another process keeps locked is refused with the id of that process; one that is merely busy is opened', async t => {
  const path = await tempFolder(t)
  const writer = await openAt(path)
  let isDone = false
  const writing = (async () => {
    for (let i = 0; !isDone; i += 1) await writer.heartbeat(`p${i % 9}`)
  })()
  try {
    // Longer than the disk may let one commit wait.
    for (let i = 0; i < 20; i += 1) await assertNotLocked(path, 10_000)
  } finally {
    isDone = true
    await writing
  }
  await writer.close() // assertNotLocked() has dropped the locks of this process
  if (process.platform !== 'linux') return

  const holder = spawn(process.execPath, [join(import.meta.dirname, 'lock-holder.js'), path], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
  const message = `the store in ${path} is locked by process ${holder.pid}, which has not released it for 0.2 s: end that process`
  await t.rejects(assertNotLocked(path, 200), { name: 'StoreError', message })
  holder.kill('SIGKILL')
  await once(holder, 'close')
  await assertNotLocked(path, 200)
  await (await openAt(path)).close()
})
