import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFile, mkdir, readFile, readdir, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { open } from 'lmdb'
import t from '../support/tap.ts'
import { openEngineStore } from '../../src/store/engine-store.ts'
import type { Engine } from '../../src/store/engine.ts'
import { applyLeaseRequest, emptyLeaseRecord } from '../../src/store/lease-accounting.ts'
import type { LeaseRequest } from '../../src/store/lease-accounting.ts'
import { assertLocalFilesystem } from '../../src/store/lmdb/data-folder.ts'
import { openLmdbFolder } from '../../src/store/lmdb/lmdb-store.ts'
import { lazyStore } from '../../src/store/lazy-store.ts'
import { openStore } from '../../src/store/open-store.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import { requestSpanMs } from '../../src/store/request-log-store.ts'
import { StoreError } from '../../src/store/store.ts'
import { dayMs, hourMs } from '../../src/util/dates.ts'
import { TestClock, fakeLoggedRequest } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'
import { accountStoreContract } from './account-store-contract.ts'
import { ledgerStoreContract, storeClockContract } from './ledger-store-contract.ts'
import { useContract, usageStoreContract } from './usage-store-contract.ts'
import { recordStoreContract } from './record-store-contract.ts'
import { requestLogContract } from './request-log-contract.ts'
import { InMemoryLedgerStore, InMemoryUsageStore } from '../../src/testing/in-memory-store.ts'
import { tempFolder, tempStore } from './temp-store.ts'
import { changeAccount } from './change-account.ts'

t.test('lmdb fulfills the contract of account stores', t => accountStoreContract(t, tempStore))
t.test('lmdb fulfills the contract of ledger stores', t => ledgerStoreContract(t, tempStore))
t.test('lmdb fulfills the contract of usage stores', t => usageStoreContract(t, tempStore))
t.test('lmdb records use and counts in one step', t => useContract(t, tempStore))
t.test('lmdb follows a clock within reason', async t => {
  const path = await tempFolder(t)
  await storeClockContract(t, async (t, clock) => {
    const store = await openStore({ kind: 'lmdb', path }, clock)
    t.teardown(() => store.close())
    return store
  })
})
t.test('lmdb fulfills the contract of record stores', t => recordStoreContract(t, tempStore))
t.test('lmdb fulfills the contract of request logs', t => requestLogContract(t, tempStore))
t.test('a request is found by its id in a full log with a few reads of a small part of it', async t => {
  const clock = new TestClock()
  const folder = await openLmdbFolder(await tempFolder(t), clock)
  const read = { count: 0, chars: 0 }
  const counting: Engine = {
    ...folder,
    async read(tag, reads) {
      const result = await folder.read(tag, reads)
      read.count += 1
      for (const rows of result.tables) for (const row of rows) read.chars += row.join('').length
      return result
    },
  }
  const store = openEngineStore(counting, clock)
  t.teardown(() => store.close())
  const limits = { retentionMs: 24 * hourMs, maxBytes: 4_000_000 }
  const accounts = ['acc_1', 'acc_2', 'acc_3']
  const requestsOf = (account: string, span: number) =>
    Array.from({ length: 10 }, (_, i) => ({
      ...fakeLoggedRequest,
      requestId: createHash('sha256').update(`${account} ${span} ${i}`).digest('hex').slice(0, 24),
      params: 'x'.repeat(1_000),
    }))
  const spans = (24 * hourMs) / requestSpanMs
  for (let span = 0; span < spans; span += 1) {
    await store.addRequests(
      { id: `p-${span}`, accounts: accounts.map(account => ({ account, requests: requestsOf(account, span) })) },
      limits,
    )
    clock.advance(requestSpanMs)
  }
  const chars = 3 * JSON.stringify(await store.requests('acc_1')).length
  t.ok(chars > 3_900_000, `${chars}: it is full`)
  for (const [requestId, found] of [
    [requestsOf('acc_2', spans - 100)[4]?.requestId ?? '', 1],
    ['none', 0],
  ] as const) {
    Object.assign(read, { count: 0, chars: 0 })
    t.equal((await store.findRequests(requestId)).length, found)
    t.ok(read.count <= 8, `${read.count} reads`)
    t.ok(read.chars < chars / 50, `${read.chars} characters`)
  }
})
t.test('the days of many accounts are read at once: with one read of each, and one of the usage of all', async t => {
  const clock = new TestClock()
  const folder = await openLmdbFolder(await tempFolder(t), clock)
  let inFlight = 0
  const found = { reads: 0, mostAtOnce: 0 }
  const counting: Engine = {
    ...folder,
    async read(...args) {
      found.reads += 1
      inFlight += 1
      found.mostAtOnce = Math.max(found.mostAtOnce, inFlight)
      const result = await folder.read(...args)
      inFlight -= 1
      return result
    },
  }
  const store = openEngineStore(counting, clock)
  t.teardown(() => store.close())
  const { today: day } = await store.heartbeat('p1')
  const lease = { day, process: 'p1', minCredits: 0, desiredCredits: 80, limit: 900, shareDivisor: 1, seq: 1, counters: undefined }
  for (const account of ['acc_0', 'acc_7']) await store.requestLease({ account, ...lease })
  const accounts = Array.from({ length: 100 }, (_, i) => `acc_${i}`)
  Object.assign(found, { reads: 0 })
  const totals = await store.dayTotalsOf(accounts)
  t.same(
    totals.map(({ leased }) => leased).filter(leased => leased > 0),
    [80, 80],
  )
  t.equal(found.reads, 1 + accounts.length + 1 + 2, 'the processes, all leases, the usage, and leases again where there are some')
  t.equal(found.mostAtOnce, accounts.length)
})
t.test('lmdb drops no record because its clock is ahead for a while', async t => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  await store.heartbeat('gateway')
  const session = { id: 's1', account: 'acc_1', value: null, expires: clock.now() + hourMs }
  await store.putRecord('session', session)
  clock.shiftWallClock(400 * dayMs)
  t.equal(await store.findRecord('session', 's1'), undefined)
  await store.putRecord('session', { ...session, id: 's2', expires: neverExpires })
  clock.shiftWallClock(-400 * dayMs)
  t.same(await store.findRecord('session', 's1'), session)
})

t.test('the in-memory ledger of the tests fulfills the contract', t => ledgerStoreContract(t, (_, clock) => new InMemoryLedgerStore(clock)))
t.test('the in-memory usage of the tests fulfills the contract', t => usageStoreContract(t, (_, clock) => new InMemoryUsageStore(clock)))

t.test('the arithmetic of a lease', async t => {
  const request = (over: Partial<LeaseRequest>): LeaseRequest => ({
    account: 'acc_1',
    day: 7,
    process: 'p1',
    seq: 1,
    counters: { granted: 0, returned: 0, used: 0 },
    minCredits: 0,
    desiredCredits: 0,
    limit: 1_000,
    shareDivisor: 4,
    ...over,
  })
  const granted = (over: Partial<LeaseRequest>, leased = 0) => applyLeaseRequest(leased, emptyLeaseRecord, request(over), 7).record.granted

  t.test('a grant is desiredCredits, but at most 1/shareDivisor of the remaining credits', async t => {
    t.equal(granted({ desiredCredits: 100 }), 100)
    t.equal(granted({ desiredCredits: 900 }), 250)
    t.equal(granted({ desiredCredits: 900 }, 997), 0)
  })

  t.test('a grant is at least minCredits, up to all remaining credits', async t => {
    t.equal(granted({ minCredits: 80, desiredCredits: 900 }, 900), 80)
    t.equal(granted({ minCredits: 100, desiredCredits: 900 }, 900), 100)
    t.equal(granted({ minCredits: 101, desiredCredits: 900 }, 900), 0)
  })

  t.test('a lowered limit grants nothing, and revokes nothing', async t => {
    t.equal(granted({ desiredCredits: 100, limit: 500 }, 600), 0)
    t.equal(applyLeaseRequest(600, emptyLeaseRecord, request({ limit: 500 }), 7).leased, 600)
  })

  t.test('a grant whose response was lost comes with the next response, as a part of its grant', async t => {
    const first = applyLeaseRequest(0, emptyLeaseRecord, request({ desiredCredits: 100 }), 7)
    const second = applyLeaseRequest(first.leased, first.record, request({ seq: 2, minCredits: 80, desiredCredits: 120 }), 7)
    t.match(second, { leased: 120, record: { granted: 120 } })
    const third = applyLeaseRequest(second.leased, second.record, request({ seq: 3, minCredits: 80, desiredCredits: 100 }), 7)
    t.match(third, { leased: 120, record: { granted: 120 } })
  })

  t.test('a process that knows nothing of the day gets the credits that it may still hold', async t => {
    const record = { granted: 500, returned: 300, used: 120, seq: 4 }
    t.match(applyLeaseRequest(200, record, request({ seq: 5, counters: undefined, desiredCredits: 100 }), 7), {
      leased: 220,
      record: { granted: 520, returned: 300, used: 120, seq: 5 },
    })
  })

  t.test('a store that lost its last writes restores them from the processes that hold the credits', async t => {
    const lost = { granted: 100, returned: 0, used: 20, seq: 3 }
    const restored = applyLeaseRequest(100, lost, request({ seq: 9, counters: { granted: 600, returned: 250, used: 300 } }), 7)
    t.match(restored, { leased: 350, record: { granted: 600, returned: 250, used: 300 } })
    t.equal(applyLeaseRequest(1_000, lost, request({ seq: 9, counters: { granted: 600, returned: 0, used: 600 } }), 7).leased, 1_500)
  })
})

t.test('the embedded store', async t => {
  const clock = new TestClock()
  const openAt = (path: string) => openStore({ kind: 'lmdb', path }, clock)

  t.test('creates its folder, which other users cannot read', async t => {
    const path = join(await tempFolder(t), 'deep', 'data.v1')
    await (await openAt(path)).close()
    t.equal((await stat(path)).mode & 0o777, 0o700)
    t.same((await readdir(path)).sort(), ['data.mdb', 'lock.mdb'])
  })

  t.test('keeps what was written', async t => {
    const path = await tempFolder(t)
    const first = await openAt(path)
    await first.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
    await first.close()
    const second = await openAt(path)
    t.match(await second.account('alice'), { id: 'acc_1' })
    await second.close()
  })

  t.test('maps its file once, however far the file grows', { skip: process.platform !== 'linux' && 'needs /proc' }, async t => {
    const path = await tempFolder(t)
    const store = await openStore({ kind: 'lmdb', path }, new TestClock())
    t.teardown(() => store.close())
    const { size } = await stat(join(path, 'data.mdb'))
    for (let i = 0; (await stat(join(path, 'data.mdb'))).size <= 4 * size; i += 1)
      await store.addAccount({ id: `acc_${i}`, name: 'n'.repeat(1_000) + i, plan: 'core', created: 0 })
    const maps = (await readFile('/proc/self/maps', 'utf8')).split('\n').filter(line => line.endsWith(join(path, 'data.mdb')))
    t.equal(maps.length, 1)
  })

  t.test('knows the record of a lease, and forgets it hours later: the next request reads it', async t => {
    const [clock, path] = [new TestClock(), await tempFolder(t)]
    const engine = await openLmdbFolder(path, clock)
    let commits = 0
    const commit: Engine['commit'] = (tag, what) => {
      commits += tag.startsWith('acc_') ? 1 : 0
      return engine.commit(tag, what)
    }
    const store = openEngineStore({ ...engine, commit }, clock)
    t.teardown(() => store.close())
    const { today: day } = await store.heartbeat('p1')
    let seq = 0
    const commitsOf = async (account: string): Promise<number> => {
      const before = commits
      seq += 1
      const request = { account, day, process: 'p1', seq, counters: undefined, minCredits: 0, desiredCredits: 5, limit: 9, shareDivisor: 1 }
      await store.requestLease(request)
      return commits - before
    }
    t.equal(await commitsOf('acc_1'), 1)
    t.equal(await commitsOf('acc_1'), 1)
    clock.advance(2 * hourMs)
    await commitsOf('acc_2')
    t.equal(await commitsOf('acc_1'), 2)
  })

  t.test('may be opened twice, and closed twice', async t => {
    const path = await tempFolder(t)
    const [first, second] = [await openAt(path), await openAt(path)]
    await first.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
    t.match(await second.account('alice'), { id: 'acc_1' })
    await first.close()
    await first.close()
    t.match(await changeAccount(second, 'acc_1', { plan: 'growth' }), { plan: 'growth' })
    await second.close()
  })

  t.test('is opened while another store of the process writes to the same folder', async t => {
    const path = await tempFolder(t)
    const first = await openAt(path)
    let isOver = false
    let count = 0
    const write = async () => {
      while (!isOver) await first.addAccount({ id: `acc_${(count += 1)}`, name: `name-${count}`, plan: 'core', created: count })
    }
    const writing = Promise.all([write(), write(), write()])
    for (let i = 0; i < 10; i += 1) {
      const countBefore = count
      const store = await openAt(path)
      await waitUntil(() => count > countBefore + 3)
      await store.close()
    }
    isOver = true
    await writing
    t.match(await first.account('name-1'), { id: 'acc_1' })
    await first.close()
  })

  t.test('refuses requests after it was closed', async t => {
    const store = await openAt(await tempFolder(t))
    await store.close()
    await t.rejects(store.heartbeat('p1'), { name: 'StoreError', message: 'the store is closed' })
    await t.rejects(async () => store.account('alice'))
  })

  t.test('refuses an unknown version, and says what to do', async t => {
    const path = await tempFolder(t)
    const root = open({ path, noSubdir: false, encoding: 'json', overlappingSync: false })
    await root.openDB({ name: 'meta' }).put('version', 1)
    await root.close()
    await t.rejects(
      openAt(path),
      new StoreError(
        `the store in ${path} has version 1, and this Tollgate reads version 2: ` +
          'run the Tollgate that wrote it, or name another folder',
      ),
    )
  })

  t.test('refuses a file that is not a store', async t => {
    const path = await tempFolder(t)
    await writeFile(join(path, 'data.mdb'), 'something else')
    await t.rejects(openAt(path), { name: 'StoreError', message: /data\.mdb is not a store, or it is damaged/ })
  })

  t.test('refuses a path that is not a folder, and a folder that LMDB cannot open', async t => {
    const path = await tempFolder(t)
    await writeFile(join(path, 'file'), '')
    const isFile = /^cannot use .* as the store's folder: .*file is a file, not a folder$/
    for (const below of ['file', 'file/store']) await t.rejects(openAt(join(path, below)), { name: 'StoreError', message: isFile })
    const impossible = "cannot use /proc/tollgate/store as the store's folder: no folder can be created in /proc"
    await t.rejects(openAt('/proc/tollgate/store'), { name: 'StoreError', message: impossible }, 'recursive mkdir() would not return')
    await mkdir(join(path, 'store', 'data.mdb'), { recursive: true })
    await t.rejects(openAt(join(path, 'store')), { name: 'StoreError', message: /^cannot open the store in / })
  })

  t.test('refuses a folder on a network file system', async t => {
    t.throws(() => assertLocalFilesystem('/mnt/data', 0x6969), { name: 'StoreError', message: /\/mnt\/data is on .* \(NFS\)/ })
    t.throws(() => assertLocalFilesystem('/mnt/c/data', 0x01021997), { message: /\(9P\)/ })
    t.doesNotThrow(() => assertLocalFilesystem('/data', 0xef53))
  })

  t.test('on a full disk fails with the reason, can still be read, and is written again when there is room', async t => {
    const script = join(import.meta.dirname, 'full-disk.js')
    // Files may grow to 400 blocks: for LMDB the same as a full disk.
    const { stdout } = await promisify(execFile)('sh', [
      '-c',
      'ulimit -Sf 400 && exec "$0" "$1" "$2"',
      process.execPath,
      script,
      await tempFolder(t),
    ])
    const message = /^cannot write to the store in .*: (File too large; make room on its disk|Input\/output error)$/
    t.match(JSON.parse(stdout), { name: 'StoreError', message, readable: true, recovers: true })
  })

  t.test('refuses everything while its files are gone or replaced: nothing is written to files that are lost with the process', async t => {
    const [folder, clock] = [await tempFolder(t), new TestClock()]
    const path = join(folder, 'data')
    const store = await openStore({ kind: 'lmdb', path }, clock)
    t.teardown(() => store.close())
    const { today } = await store.heartbeat('p1')
    const lease = { account: 'acc_1', day: today, process: 'p1', minCredits: 0, desiredCredits: 5, limit: 9, shareDivisor: 1 }
    const isRefused = async () => {
      clock.advance(1_000)
      const [failure] = await Promise.allSettled([store.heartbeat('p1')])
      return failure.status === 'rejected'
    }
    await rename(path, `${path}-moved`)
    await waitUntil(isRefused)
    const refusal = {
      name: 'StoreError',
      message: `the store in ${path} was removed or replaced while it was in use: put its files back where they were, or restart the gateway`,
    }
    await t.rejects(store.requestLease({ ...lease, seq: 1, counters: undefined }), refusal)
    await t.rejects(store.takeRecord('filter', 'none'), refusal)
    await t.rejects(async () => store.findKey('hash'), refusal)
    await t.rejects(async () => store.changeCount(), refusal)
    await rename(`${path}-moved`, path)
    await waitUntil(async () => !(await isRefused()))
    await store.requestLease({ ...lease, seq: 1, counters: undefined })

    await copyFile(join(path, 'lock.mdb'), join(path, 'copy'))
    await rename(join(path, 'copy'), join(path, 'lock.mdb'))
    await waitUntil(isRefused)
    await t.rejects(store.reportUsage({ process: 'p1', seq: 1, counts: [], retentionHours: 1 }), refusal)
  })
})

t.test('a store that is opened by its first method can be awaited before, and is opened again after it could not be', async t => {
  let openings = 0
  const store = await tempStore(t, new TestClock())
  const lazy = await Promise.resolve(
    lazyStore(async () => {
      openings += 1
      if (openings === 1) throw new StoreError('it does not answer')
      return store
    }),
  )
  t.equal(openings, 0)
  await t.rejects(async () => lazy.accounts(), { name: 'StoreError' })
  t.same(await lazy.accounts(), [])
  for await (const _ of lazy.allUsageCounts()) t.fail('there is none')
  t.equal(openings, 3)
})
