import { setImmediate } from 'node:timers/promises'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import type { PlainStoreAddress } from '../../src/config/types.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Clock } from '../../src/services/clock.ts'
import { openEngineStore } from '../../src/store/engine-store.ts'
import { openEngine, openStore } from '../../src/store/open-store.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import { switchStore } from '../../src/store/switch-store.ts'
import { processesTag } from '../../src/store/store-days.ts'
import { readTable } from '../../src/store/engine.ts'
import type { Commit, Engine } from '../../src/store/engine.ts'
import {
  dirtyCell,
  moveCell,
  moveTable,
  openMovableEngine,
  sealField,
  sealed,
  stateField,
  storeId,
} from '../../src/store/movable-engine.ts'
import type { Store } from '../../src/store/store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { TestClock } from '../support/fakes.ts'
import { deferred } from '../support/deferred.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { waitUntil } from '../support/wait-until.ts'
import { tempFolder } from './temp-store.ts'

const limit = 1_000_000_000
const accounts: readonly [string, ...string[]] = ['acc_1', 'acc_2', 'acc_3']

/** A gateway that spends credits, counts calls and changes keys, and knows what it has done. */
class BusyProcess {
  readonly keys = new Map<string, { isRevoked: boolean }>()
  readonly used = new Map<string, number>()
  readonly #name: string
  readonly #store: Store
  readonly #clock: Clock
  readonly #random: SeededRandom
  readonly #leases = new Map<string, { granted: number; returned: number; used: number }>()
  #seq = 0
  #reports = 0
  #isStopping = false
  #running: Promise<void> = Promise.resolve()

  constructor(name: string, store: Store, clock: Clock, random: SeededRandom) {
    this.#name = name
    this.#store = store
    this.#clock = clock
    this.#random = random
  }

  async beat(): Promise<void> {
    await this.#store.heartbeat(this.#name)
  }

  start(): void {
    this.#running = this.#work()
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#running
  }

  async #work(): Promise<void> {
    for (let step = 0; !this.#isStopping; step += 1) {
      const account = this.#random.pick(accounts)
      await this.#spend(account)
      await this.#report(account)
      await this.#changeKeys(account, step)
      await this.beat()
    }
  }

  async #spend(account: string): Promise<void> {
    const lease = this.#leases.get(account)
    const used = lease === undefined ? 0 : Math.min(80, lease.granted - lease.returned - lease.used)
    const counters = lease && { ...lease, used: lease.used + used }
    const { today: day } = await this.#store.dayBalance(account)
    const of = { account, day, process: this.#name, limit, shareDivisor: 1, minCredits: 0, desiredCredits: 100 }
    const response = await this.#store.requestLease({ ...of, seq: (this.#seq += 1), counters })
    this.#leases.set(account, { ...response.counters })
    this.used.set(account, response.counters.used)
  }

  async #report(account: string): Promise<void> {
    const group = { account, key: 'key_1', network: 'devnet', method: 'eth_call', outcome: 'ok', forwarded: false }
    const credits = (this.used.get(account) ?? 0) - (this.#reported.get(account) ?? 0)
    this.#reported.set(account, this.used.get(account) ?? 0)
    const counts = [{ ...group, hour: Math.floor(this.#clock.now() / hourMs), calls: 1, credits }]
    const report = { process: this.#name, seq: (this.#reports += 1), counts, retentionHours: 100 }
    // As the reporter does: until it is acknowledged.
    const { lostWrites } = await this.#store.reportUsage(report).catch(() => this.#store.reportUsage(report))
    if (lostWrites !== 'none') throw new Error('a report is missing')
    this.calls += 1
  }

  readonly #reported = new Map<string, number>()
  calls = 0

  async #changeKeys(account: string, step: number): Promise<void> {
    const id = `key_${this.#name}_${step}`
    await this.#store.addKey(`hash_${id}`, { id, account, created: step, hint: 'abcd' })
    this.keys.set(id, { isRevoked: false })
    await this.#store.putRecord('session', { id, account, value: step, expires: neverExpires })
    if (!this.#random.chance(0.5)) return
    await this.#store.revokeKey(id, 7)
    await this.#store.takeRecord('session', id)
    this.keys.set(id, { isRevoked: true })
  }
}

/** Two busy processes on an embedded store that another one is to follow. */
const openBusyStores = async <C extends Clock>(t: Test, seed: number, clock: C, to: PlainStoreAddress) => {
  const from = { kind: 'lmdb', path: await tempFolder(t) } as const
  const address = { ...to, from }
  const open = async <T extends { close(): Promise<void> }>(opening: Promise<T>): Promise<T> => {
    const opened = await opening
    t.teardown(() => opened.close())
    return opened
  }
  const setup = await open(openStore(address, clock))
  for (const id of accounts) await setup.addAccount({ id, name: id, plan: 'core', created: 1 })
  const random = new SeededRandom(seed)
  const processes = await Promise.all(
    ['p1', 'p2'].map(async name => new BusyProcess(name, await open(openStore(address, clock)), clock, random)),
  )
  const engines = { from: await open(openEngine(from, clock)), to: await open(openEngine(to, clock)) }
  const openUsed = () => open(openStore(to, clock))
  const openLeft = () => open(openStore(from, clock))
  return { clock, processes, engines, openUsed, openLeft, openAddress: () => open(openStore(address, clock)) }
}

const assertNothingLost = async (t: Test, store: Store, processes: readonly BusyProcess[]): Promise<void> => {
  for (const account of accounts) {
    const expected = processes.reduce((sum, { used }) => sum + (used.get(account) ?? 0), 0)
    const totals = await store.dayTotals(account)
    t.match(totals, { used: expected, counted: expected, isExact: true }, account)
  }
  let calls = 0
  for await (const count of store.allUsageCounts()) calls += count.calls
  t.equal(
    calls,
    processes.reduce((sum, each) => sum + each.calls, 0),
    'rows of usage',
  )
  for (const { keys } of processes) {
    for (const [id, { isRevoked }] of keys) {
      const found = await store.findKeyById(id)
      if (found === undefined || (found.key.revoked !== undefined) !== isRevoked) t.fail(`key ${id}`)
      if (((await store.findRecord('session', id)) === undefined) !== isRevoked) t.fail(`session ${id}`)
    }
  }
}

const noProgress = () => undefined

const goOver = async (t: Test, to: PlainStoreAddress): Promise<void> => {
  const { clock, processes, engines, openUsed, openLeft, openAddress } = await openBusyStores(t, 1, systemClock, to)
  for (const process of processes) {
    await process.beat()
    process.start()
  }
  const { accounts: accountCount, missing } = await switchStore(engines.from, engines.to, clock, noProgress)
  t.match({ accountCount, missing }, { accountCount: 3, missing: 0 })
  const before = processes.map(({ calls }) => calls)
  await waitUntil(async () => processes.every(({ calls }, i) => calls > (before[i] ?? 0) + 5))
  for (const process of processes) await process.stop()
  await assertNothingLost(t, await openUsed(), processes)
  await t.rejects(openLeft(), { message: /^the store has been copied to another one, which is in use: let `store` in gateway.yaml name/ })
  await assertNothingLost(t, await openAddress(), processes)
  t.match(await switchStore(engines.from, engines.to, clock, noProgress), { rows: 0, heldMs: 0 }, 'a run after the last changes nothing')
}

t.test('processes go over to another store while they write, and nothing is lost or counted twice', async t => {
  await goOver(t, { kind: 'lmdb', path: await tempFolder(t) })
})

t.test('the same for a Redis, where usage is spread over other tags', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  await goOver(t, redis.address)
})

/** Ends like a process that is killed: what it has begun may be done, and it does nothing more. */
class KilledError extends Error {}

const killedAfter = (engine: Engine, counter: { left: number }): Engine => {
  const spend = () => {
    if ((counter.left -= 1) < 0) throw new KilledError()
  }
  return {
    ...engine,
    async read(...args) {
      spend()
      return engine.read(...args)
    },
    async commit(...args) {
      spend()
      return engine.commit(...args)
    },
  }
}

t.test('a run that is killed at any step leaves a store that goes on, and the next run ends the copy', async t => {
  for (let seed = 1; seed <= 25; seed += 1) {
    const { clock, processes, engines, openUsed } = await openBusyStores(t, seed, new TestClock(), {
      kind: 'lmdb',
      path: await tempFolder(t),
    })
    const random = new SeededRandom(100 + seed)
    for (const process of processes) {
      await process.beat()
      process.start()
    }
    for (let kill = 0; kill < 3; kill += 1) {
      const counter = { left: random.between(1, 400) }
      await switchStore(killedAfter(engines.from, counter), killedAfter(engines.to, counter), clock, noProgress).catch((error: unknown) => {
        if (!(error instanceof KilledError)) throw error
      })
      clock.shiftWallClock(6_000)
      for (const process of processes) await process.beat()
    }
    await switchStore(engines.from, engines.to, clock, noProgress)
    for (const process of processes) await process.stop()
    await assertNothingLost(t, await openUsed(), processes)
  }
})

t.test('a run that is stopped takes back what it has done', async t => {
  const address = { kind: 'lmdb', path: await tempFolder(t) } as const
  const { clock, processes, engines } = await openBusyStores(t, 1, new TestClock(), address)
  for (const process of processes) {
    await process.beat()
    process.start()
  }
  const stop = (): never => {
    throw new Error('stopped by SIGINT')
  }
  await t.rejects(switchStore(engines.from, engines.to, clock, stop), { message: 'stopped by SIGINT' })
  for (const process of processes) await process.stop()
  for await (const [tag, table] of engines.from.tables()) {
    if (table === moveTable) t.same([...(await readTable(engines.from, tag, table)).keys()], ['id'], tag)
  }
})

type BeforeCommit = (tag: string, commit: Commit) => Promise<void>

const withHook = (engine: Engine, beforeCommit: BeforeCommit): Engine => ({
  ...engine,
  async commit(tag, commit) {
    await beforeCommit(tag, commit)
    return engine.commit(tag, commit)
  },
})

/** Of the target, before the first row is copied: all tags have been marked or sealed. */
const beforeFirstCopy = (engine: Engine, run: () => Promise<void>): Engine => {
  let hasBegun = false
  return withHook(engine, async tag => {
    if (tag === 'processes' || hasBegun) return
    hasBegun = true
    await run()
  })
}

/** A process that sends no heartbeats to the new store counts as missing. */
const keepBeating = async (t: Test, processes: readonly BusyProcess[]): Promise<void> => {
  const beat = () => Promise.all(processes.map(process => process.beat()))
  await beat()
  const timer = setInterval(() => void beat(), 50)
  t.teardown(() => clearInterval(timer))
}

t.test('a run that is stopped while it seals accounts seals no more of them', async t => {
  const { clock, processes, engines, openAddress } = await openBusyStores(t, 1, systemClock, { kind: 'lmdb', path: await tempFolder(t) })
  await keepBeating(t, processes)
  const store = await openAddress()
  const ids = Array.from({ length: 500 }, (_, i) => `acc_many_${i}`)
  await Promise.all(ids.map(id => store.addAccount({ id, name: id, plan: 'core', created: 1 })))
  let sealedCount = 0
  const countSeals: BeforeCommit = async (_, { puts = [] }) => {
    if (puts.some(({ field }) => field === sealField)) sealedCount += 1
  }
  const stopAtFirstSeal = () => {
    if (sealedCount > 0) throw new Error('stopped by SIGINT')
  }
  await t.rejects(switchStore(withHook(engines.from, countSeals), engines.to, clock, stopAtFirstSeal), { message: 'stopped by SIGINT' })
  t.ok(sealedCount < ids.length, `${sealedCount} accounts are sealed`)
})

const oneLease = { process: 'p1', seq: 1, counters: undefined, limit, shareDivisor: 1, minCredits: 0, desiredCredits: 100 }

t.test('the store is held no longer with more accounts: of those that do not call meanwhile, nothing is written', async t => {
  const { clock, processes, engines, openUsed, openAddress } = await openBusyStores(t, 1, systemClock, {
    kind: 'lmdb',
    path: await tempFolder(t),
  })
  await keepBeating(t, processes)
  const store = await openAddress()
  const { today: day } = await store.dayBalance('acc_1')
  const lease = (account: string) => store.requestLease({ ...oneLease, account, day })
  for (const account of accounts) await lease(account)
  const held: string[] = []
  let isHeld = false
  const recordHeld: BeforeCommit = async (tag, { puts = [] }) => {
    isHeld ||= puts.some(({ value }) => value.startsWith('hold '))
    if (isHeld) held.push(tag)
  }
  const changeMeanwhile = async () => {
    await store.addAccount({ id: 'acc_added', name: 'added', plan: 'core', created: 1 })
    await store.addKey('hash_added', { id: 'key_added', account: 'acc_added', created: 1, hint: 'abcd', dailyCredits: 500 })
    for (const id of ['acc_added', 'key_added']) await lease(id)
    await store.requestLease({ ...oneLease, account: 'acc_2', day, seq: 2, counters: { granted: 100, returned: 0, used: 80 } })
  }
  await switchStore(withHook(engines.from, recordHeld), beforeFirstCopy(engines.to, changeMeanwhile), clock, noProgress)
  t.equal(held.includes('acc_1') || held.includes('acc_3'), false, 'accounts that do not call')
  t.ok(held.includes('acc_2'), 'an account that calls can be changed no more')
  const used = await openUsed()
  for (const id of ['acc_1', 'acc_3', 'acc_added', 'key_added']) t.match(await used.dayTotals(id), { used: 0, held: 100 }, id)
  t.match(await used.dayTotals('acc_2'), { used: 80, held: 120 }, 'a lease that was renewed while the store was copied')
})

/**
 * What engines are asked in one turn is answered before the next turn begins: there are as many turns as steps that wait for each other. But for the
 * steps of the phase and of heartbeats, which come by time.
 */
class Turns {
  count = 0
  #waiting: (() => void)[] = []
  #running = 0

  of(engine: Engine): Engine {
    const inTurn = async <T>(tag: string, ask: () => Promise<T>): Promise<T> => {
      if (tag === processesTag) return ask()
      await new Promise<void>(resolve => this.#waiting.push(resolve))
      this.#running += 1
      return ask().finally(() => {
        this.#running -= 1
      })
    }
    const allRows = async (rows: ReturnType<Engine['scan']>) => {
      const all: (readonly [string, string])[] = []
      for await (const row of rows) all.push(row)
      return all
    }
    return {
      ...engine,
      read: (...args) => inTurn(args[0], () => engine.read(...args)),
      commit: (...args) => inTurn(args[0], () => engine.commit(...args)),
      async *scan(...args) {
        yield* await inTurn(args[0], () => allRows(engine.scan(...args)))
      },
    }
  }

  async during<T>(work: Promise<T>): Promise<T> {
    let isDone = false
    const end = () => {
      isDone = true
    }
    work.then(end, end)
    while (!isDone) {
      await setImmediate()
      await setImmediate()
      if (this.#running > 0 || this.#waiting.length === 0) continue
      this.count += 1
      for (const begin of this.#waiting.splice(0)) begin()
    }
    return work
  }
}

t.test('the store is held for a few steps, however many tables have changed since the last pass', async t => {
  const { processes, engines, openUsed, openAddress } = await openBusyStores(t, 1, systemClock, {
    kind: 'lmdb',
    path: await tempFolder(t),
  })
  await keepBeating(t, processes)
  const store = await openAddress()
  const { today: day } = await store.dayBalance('acc_1')
  const added = Array.from({ length: 10 }, (_, i) => `acc_new${i}`)
  const changeLate: BeforeCommit = async (_, { puts = [] }) => {
    if (!puts.some(({ value }) => value.startsWith('hold '))) return
    for (const id of added) {
      await store.addAccount({ id, name: id, plan: 'core', created: 1 })
      await store.addKey(`hash_${id}`, { id: `key_${id}`, account: id, created: 1, hint: 'abcd' })
      await store.requestLease({ ...oneLease, account: id, day })
    }
  }
  const turns = new Turns()
  const [from, to] = [turns.of(withHook(engines.from, changeLate)), turns.of(engines.to)]
  const { heldMs } = await turns.during(switchStore(from, to, { monotonic: () => turns.count }, noProgress))
  t.ok(heldMs < 30, `${heldMs} steps`)
  const used = await openUsed()
  for (const id of added) {
    t.match(await used.dayTotals(id), { held: 100 }, id)
    t.match(await used.findKey(`hash_${id}`), { account: { id } })
  }
})

t.test('the store is held after a pass that was quick: not while one of them is busy, as with what was copied', async t => {
  const { processes, engines, openAddress } = await openBusyStores(t, 1, systemClock, { kind: 'lmdb', path: await tempFolder(t) })
  await keepBeating(t, processes)
  const store = await openAddress()
  const slowPasses = 3
  let [now, passes] = [0, 0]
  const from = withHook(engines.from, async (tag, { guards = [], puts = [] }) => {
    const isPass = tag === 'accounts' && puts.length === 0 && guards.some(({ field }) => field === dirtyCell.field)
    if (!isPass) return
    passes += 1
    await store.addKey(`hash${passes}`, { id: `key${passes}`, account: 'acc_1', created: 1, hint: 'abcd' })
  })
  const to = withHook(engines.to, async () => {
    if (passes > 0 && passes <= slowPasses) now += 1_000
  })
  const { heldMs } = await switchStore(from, to, { monotonic: () => now }, noProgress)
  t.equal(heldMs, 0)
  t.equal(passes, slowPasses + 1)
})

t.test('a process that was about to change an account when the store was held changes it in the new store', async t => {
  const { clock, processes, engines } = await openBusyStores(t, 1, systemClock, { kind: 'lmdb', path: await tempFolder(t) })
  await keepBeating(t, processes)
  const [isMoved, isListed] = [deferred(), deferred()]
  const waitUntilMoved: BeforeCommit = async (tag, { guards = [] }) => {
    if (tag !== 'acc_1' || !guards.some(({ field }) => field === sealField)) return
    isListed.resolve()
    await isMoved.promise
  }
  const successor = { engine: engines.to, id: await storeId(engines.to) }
  const late = openMovableEngine(withHook(engines.from, waitUntilMoved), clock, successor)
  let changing: Promise<unknown> | undefined
  const changeLate = async () => {
    changing = late.commit('acc_1', { puts: [{ table: 'days', field: '1', value: 'late' }] })
    await isListed.promise
  }
  await switchStore(engines.from, beforeFirstCopy(engines.to, changeLate), clock, noProgress)
  isMoved.resolve()
  await changing
  const changedIn = async (engine: Engine) => (await readTable(engine, 'acc_1', 'days')).get('1')
  t.same([await changedIn(engines.from), await changedIn(engines.to)], [undefined, 'late'])
})

const releases = (tag: string, { dels = [] }: Commit): boolean => tag !== 'processes' && dels.some(({ field }) => field === sealField)

const fail: BeforeCommit = async tag => {
  if (tag !== 'processes') throw new Error('the disk is full')
}

t.test('a run that takes back what it has done is under way until that is done', async t => {
  const { clock, processes, engines } = await openBusyStores(t, 1, systemClock, { kind: 'lmdb', path: await tempFolder(t) })
  await keepBeating(t, processes)
  const [isReleasing, mayGoOn] = [deferred(), deferred()]
  const block: BeforeCommit = async (tag, commit) => {
    if (tag !== 'acc_1' || !releases(tag, commit)) return
    isReleasing.resolve()
    await mayGoOn.promise
  }
  const run = switchStore(withHook(engines.from, block), withHook(engines.to, fail), clock, noProgress)
  run.catch(() => undefined)
  await isReleasing.promise
  const next = switchStore(engines.from, engines.to, clock, noProgress)
  await t.rejects(next, { message: 'another `tollgate store copy` of this store is under way' })
  mayGoOn.resolve()
  await t.rejects(run, { message: 'the disk is full' })
  t.match(await switchStore(engines.from, engines.to, clock, noProgress), { accounts: 3, missing: 0 })
})

t.test('a run that was paused while it took back what it had done leaves the marks of the one that has taken over', async t => {
  const to = { kind: 'lmdb', path: await tempFolder(t) } as const
  const { clock, processes, engines, openUsed, openAddress } = await openBusyStores(t, 1, new TestClock(), to)
  await keepBeating(t, processes)
  const store = await openAddress()
  await store.addKey('hash_1', { id: 'key_1', account: 'acc_1', created: 1, hint: 'abcd' })
  const [pauses, goesOn] = [deferred(), deferred()]
  let [isReleasing, isPaused] = [false, false]
  const pausedRun: Engine = {
    ...withHook(engines.from, async (_, { puts = [] }) => {
      if (isPaused) await goesOn.promise
      isReleasing ||= puts.some(({ value }) => value.startsWith('release '))
    }),
    async *tables() {
      if (isReleasing) {
        isPaused = true
        pauses.resolve()
        await goesOn.promise
      }
      yield* engines.from.tables()
    },
  }
  const run = switchStore(pausedRun, withHook(engines.to, fail), clock, noProgress)
  run.catch(() => undefined)
  await pauses.promise
  clock.advance(6_000)
  for (const process of processes) await process.beat()
  let hasGoneOn = false
  const beforeFirstPass: BeforeCommit = async (tag, { guards = [], puts = [] }) => {
    const isPass = tag === 'accounts' && puts.length === 0 && guards.some(({ field }) => field === dirtyCell.field)
    if (!isPass || hasGoneOn) return
    hasGoneOn = true
    goesOn.resolve()
    await t.rejects(run, { message: 'the disk is full' })
    await store.revokeKey('key_1', 7)
  }
  await switchStore(withHook(engines.from, beforeFirstPass), engines.to, clock, noProgress)
  t.ok(hasGoneOn)
  t.match(await (await openUsed()).findKeyById('key_1'), { key: { revoked: 7 } }, 'what was changed since is copied')
})

t.test('a change of an account that is sealed is refused after some seconds where nobody copies the store', async t => {
  const { engines } = await openBusyStores(t, 1, systemClock, { kind: 'lmdb', path: await tempFolder(t) })
  const puts = [stateField, sealField].map(field => ({ table: moveTable, field, value: sealed }))
  await engines.from.commit('acc_1', { puts })
  let now = 0
  const engine = openMovableEngine(engines.from, { monotonic: () => (now += 1_000) })
  const commit = engine.commit('acc_1', { puts: [{ table: 'days', field: '1', value: 'x' }] })
  await t.rejects(commit, {
    message: /^the store is being copied to another one, and takes no changes meanwhile: run `tollgate store copy/,
  })
})

t.test('a store says how full it is, and while it is copied to another one how full the fuller of both is', async t => {
  const { engines } = await openBusyStores(t, 1, systemClock, { kind: 'lmdb', path: await tempFolder(t) })
  const from: Engine = { ...engines.from, usedShares: async () => ({ memory: 0.9, clients: 0.1 }) }
  const to: Engine = { ...engines.to, usedShares: async () => ({ memory: 0.3, clients: 0.5 }) }
  const id = await storeId(to)
  let now = 0
  const clock = { ...systemClock, monotonic: () => (now += 2_000) }
  const store = openEngineStore(openMovableEngine(from, clock, { engine: to, id }), clock)
  t.same(await store.usedShares(), { memory: 0.9, clients: 0.1 })
  await from.commit('processes', { puts: [{ ...moveCell('phase'), value: 'copy 1 1' }] })
  t.same(await store.usedShares(), { memory: 0.9, clients: 0.5 })
  const embedded = openEngineStore(openMovableEngine(engines.from, clock, { engine: to, id }), clock)
  const { disk = 0, ...ofTarget } = await embedded.usedShares()
  t.same(ofTarget, { memory: 0.3, clients: 0.5 })
  t.ok(disk > 0 && disk < 0.9, 'an embedded one, of its file and what is free on its disk')
  await from.commit('processes', { puts: [{ ...moveCell('movedTo'), value: id }] })
  t.same(await store.usedShares(), { memory: 0.3, clients: 0.5 })
})
