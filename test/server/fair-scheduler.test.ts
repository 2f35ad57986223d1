import { Socket } from 'node:net'
import t from '../support/tap.ts'
import { FairScheduler, unitsOfMessage } from '../../src/server/fair-scheduler.ts'
import { ReadPacing } from '../../src/server/read-pacing.ts'
import { TestClock } from '../support/fakes.ts'

const nextTurn = () => new Promise(setImmediate)

/** Enters `count` calls of the owner; their order of beginning is recorded in `begun`. */
const enter = (scheduler: FairScheduler, begun: string[], owner: string, count: number, units = 1): void => {
  for (let i = 0; i < count; i += 1) {
    const turn = scheduler.enter(owner, units)
    if (turn === undefined) begun.push(owner)
    else void turn.then(() => begun.push(owner))
  }
}

/** A scheduler to which two owners have called lately. */
const openMixed = async (clock = new TestClock()): Promise<FairScheduler> => {
  const scheduler = new FairScheduler(clock)
  for (const owner of ['a', 'b']) scheduler.enter(owner, 1)
  for (let i = 0; i < 8; i += 1) scheduler.enter('b', 0)
  await nextTurn()
  return scheduler
}

t.test('calls of a caller who is alone begin at once', async t => {
  const [scheduler, begun] = [new FairScheduler(new TestClock()), [] as string[]]
  enter(scheduler, begun, 'a', 200)
  t.equal(begun.length, 200)
})

t.test('a call of one account does not wait for the many calls of another', async t => {
  const [scheduler, begun] = [await openMixed(), [] as string[]]
  enter(scheduler, begun, 'a', 1_000)
  t.ok(begun.length < 20, `${begun.length} begin at once`)
  const before = begun.length
  enter(scheduler, begun, 'b', 1)
  t.equal(begun[before], 'b')
  await nextTurn()
  t.ok(begun.length < 100, 'a turn is short')
})

t.test('accounts that wait are served in turn, and every call begins', async t => {
  const [scheduler, begun] = [await openMixed(), [] as string[]]
  enter(scheduler, begun, 'a', 300)
  enter(scheduler, begun, 'b', 100)
  while (begun.length < 400) await nextTurn()
  const latestOfB = begun.lastIndexOf('b')
  t.ok(latestOfB < 260, `b is done after ${latestOfB} calls, though it came after 300 of a`)
  t.equal(begun.filter(owner => owner === 'a').length, 300)
})

t.test('waiting calls wait while connections are accepted, one in a turn, but for 32 turns at most', async t => {
  const [scheduler, begun] = [await openMixed(), [] as string[]]
  enter(scheduler, begun, 'a', 1_000)
  const acceptIn = async (turns: number): Promise<number> => {
    const before = begun.length
    for (let i = 0; i < turns; i += 1) {
      scheduler.recordConnection()
      await nextTurn()
    }
    return begun.length - before
  }
  t.equal(await acceptIn(32), 0)
  t.ok((await acceptIn(1)) > 0, 'a flood of connections does not keep the calls waiting')
  t.equal(await acceptIn(5), 0)
  const before = begun.length
  await nextTurn()
  t.ok(begun.length > before, 'calls go on in the first turn without a connection')
})

t.test('a long message counts as many calls', async t => {
  const [scheduler, begun] = [await openMixed(), [] as string[]]
  t.equal(scheduler.enter('a', unitsOfMessage(1 << 20)), undefined)
  enter(scheduler, begun, 'a', 10)
  enter(scheduler, begun, 'b', 200)
  for (let i = 0; i < 10; i += 1) await nextTurn()
  t.ok(begun.length > 100 && !begun.includes('a'), 'only calls of b begin meanwhile')
  while (begun.length < 210) await nextTurn()
})

t.test('accounts that send nothing but long messages get the same time, however many each has in flight', async t => {
  const [scheduler, counts] = [await openMixed(), new Map<string, number>()]
  let isOver = false
  const sendLongMessages = async (owner: string) => {
    while (!isOver) {
      await scheduler.enter(owner, unitsOfMessage(1 << 20))
      counts.set(owner, (counts.get(owner) ?? 0) + 1)
      await nextTurn()
    }
  }
  for (const owner of ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'c']) void sendLongMessages(owner)
  for (let turns = 0; turns < 1_000; turns += 1) await nextTurn()
  isOver = true
  const [most, least] = [Math.max(...counts.values()), Math.min(...counts.values())]
  t.ok(counts.size === 3 && most < 1.5 * least, JSON.stringify(Object.fromEntries(counts)))
})

t.test('while turns take long, calls get as much as the long pieces of another account', async t => {
  const clock = new TestClock()
  const [scheduler, begun] = [await openMixed(clock), [] as string[]]
  enter(scheduler, begun, 'long', 1_000, 9)
  enter(scheduler, begun, 'short', 1_000)
  begun.length = 0
  for (let i = 0; i < 100; i += 1) {
    clock.advance(40)
    await nextTurn()
  }
  const [long, short] = ['long', 'short'].map(owner => begun.filter(each => each === owner).length) as [number, number]
  t.ok(long > 20 && short > 8 * long && short < 10 * long, `${short} calls beside ${long} pieces of 9 units`)
})

t.test('calls of an account do not wait for its events', async t => {
  const [scheduler, begun] = [await openMixed(), [] as string[]]
  for (let i = 0; i < 10; i += 1) void scheduler.enterToSend('a', 16)?.then(() => begun.push('event'))
  enter(scheduler, begun, 'a', 5)
  while (begun.length < 14) await nextTurn()
  t.same(begun.slice(0, 5), Array(5).fill('a'))
  t.equal(begun.filter(each => each === 'event').length, 9, 'the first began at once')
})

t.test('while turns of the event loop take long, fewer waiting calls begin in each, and then more again', async t => {
  const clock = new TestClock()
  const [scheduler, begun] = [await openMixed(clock), [] as string[]]
  for (const owner of ['a', 'b', 'c', 'd']) enter(scheduler, begun, owner, 500)
  const begunIn = async (turns: number, turnMs: number): Promise<number> => {
    const before = begun.length
    for (let i = 0; i < turns; i += 1) {
      clock.advance(turnMs)
      await nextTurn()
    }
    return (begun.length - before) / turns
  }
  await begunIn(10, 0)
  t.equal(await begunIn(10, 1), 32)
  await begunIn(5, 6)
  t.equal(await begunIn(10, 6), 4)
  await begunIn(40, 1)
  t.equal(await begunIn(5, 1), 32)
})

t.test('accounts that wait for nothing are forgotten', async t => {
  const scheduler = new FairScheduler(new TestClock())
  scheduler.enter('owner 0', 1_000)
  for (let i = 1; i < 5_000; i += 1) scheduler.enter(`owner ${i}`, 1)
  t.equal(scheduler.enter('owner 0', 1), undefined, 'what it owed is forgotten too')
})

/** Enters `count` connections of the owner that may have a call to read; those that may be read are recorded in `read`. */
const enterToRead = (scheduler: FairScheduler, read: number[], owner: string, count: number): void => {
  for (let i = 0; i < count; i += 1) void scheduler.enterToRead(owner)?.then(() => read.push(i))
}

t.test('while calls of an account wait, its connections are read in its turns: in order, and a few in each turn', async t => {
  const [scheduler, begun, read] = [await openMixed(), [] as string[], [] as number[]]
  t.equal(scheduler.enterToRead('a'), undefined, 'none waits yet')
  enter(scheduler, begun, 'a', 50)
  enterToRead(scheduler, read, 'a', 300)
  t.equal(scheduler.enterToRead('b'), undefined, 'those of others are read at once')
  t.equal(scheduler.waitingCount, 50 - begun.length, 'they are no messages that wait')
  let maxReadInTurn = 0
  while (read.length < 300) {
    const before = read.length
    await nextTurn()
    maxReadInTurn = Math.max(maxReadInTurn, read.length - before)
  }
  t.ok(maxReadInTurn <= 16, `${maxReadInTurn} in a turn`)
  t.equal(begun.length, 50)
  t.same(read, [...read.keys()])
})

t.test('connections wait for nobody while only one account calls', async t => {
  const [scheduler, begun] = [new FairScheduler(new TestClock()), [] as string[]]
  enter(scheduler, begun, 'a', 1_000)
  t.ok(begun.length < 1_000)
  t.equal(scheduler.enterToRead('a'), undefined)
})

t.test('all connections that wait are read at once when the gateway stops', async t => {
  const [scheduler, read] = [await openMixed(), [] as number[]]
  enter(scheduler, [], 'a', 50)
  enterToRead(scheduler, read, 'a', 300)
  scheduler.readAll()
  await Promise.resolve()
  t.equal(read.length, 300)
  t.equal(scheduler.enterToRead('a'), undefined, 'as are further ones')
})

/** Connections that record until when they are paused. */
const openConnections = (count: number) =>
  Array.from({ length: count }, () => {
    const connection = {
      isAnswering: false,
      isPaused: false,
      pauseUntil(turn: Promise<void>) {
        connection.isPaused = true
        void turn.then(() => {
          connection.isPaused = false
        })
      },
    }
    return connection
  })

t.test('an account whose calls wait', async t => {
  const scheduler = await openMixed()
  const pacing = new ReadPacing(scheduler, ({ remoteAddress }) => remoteAddress)
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: '192.0.2.7' })
  const account = pacing.accountOf('a', socket)
  const connections = openConnections(300)
  const pausedCount = () => connections.filter(({ isPaused }) => isPaused).length
  const sendCalls = async () => {
    for (const connection of connections) connection.isAnswering = true
    enter(scheduler, [], 'a', 300)
    for (const connection of connections) account?.recordWait(connection)
  }
  const answer = () => {
    for (const connection of connections) {
      connection.isAnswering = false
      account?.recordAnswered(connection)
    }
  }

  t.test('has 128 connections read at any time; the others are read in its turns', async t => {
    await sendCalls()
    t.equal(pausedCount(), 0, 'the calls that have been read are answered first')
    answer()
    t.equal(pausedCount(), 300 - 128)
    while (pausedCount() > 0) await nextTurn()
  })

  t.test('has its idle connections paused once 128 calls of a turn wait, but not those with calls in flight', async t => {
    const calling = connections.slice(0, 150)
    const recordWaits = (count: number) => {
      enter(scheduler, [], 'a', count)
      for (const connection of calling.slice(0, count)) account?.recordWait(connection)
    }
    for (const connection of calling) connection.isAnswering = true
    for (let turns = 0; turns < 3; turns += 1) {
      recordWaits(127)
      await nextTurn()
    }
    t.equal(pausedCount(), 0, 'with fewer, they need not be')
    recordWaits(128)
    t.equal(pausedCount(), 300 - 150)
    t.notOk(calling.some(({ isPaused }) => isPaused))
  })

  t.test('is forgotten when its connections are closed, also those that wait', async t => {
    for (const connection of connections) account?.remove(connection)
    while (pausedCount() > 0) await nextTurn()
    t.not(pacing.accountOf('a', socket), account)
  })

  t.test('has no turns on connections of a proxy', t => {
    t.equal(pacing.accountOf('a', new Socket()), undefined)
    t.end()
  })
})
