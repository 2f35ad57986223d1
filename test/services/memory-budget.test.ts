import t from '../support/tap.ts'
import { CallerMemory, MemoryBudget, handlingBytes } from '../../src/services/memory-budget.ts'

t.test('bytes are reserved up to the limit, and free again once they are released', async t => {
  const budget = new MemoryBudget(1_000)
  t.notOk(budget.reserve(1_001))
  t.ok(budget.reserve(1_000))
  t.notOk(budget.reserve(1))
  budget.release(400)
  t.same([budget.reservedBytes, budget.freeBytes], [600, 400])
})

t.test('a budget without a limit counts what is reserved', async t => {
  const budget = new MemoryBudget(Infinity)
  t.ok(budget.reserve(1_000))
  budget.release(400)
  t.equal(budget.reservedBytes, 600)
})

t.test('an owner takes more only while it holds less than is free, so that others always find room', async t => {
  const budget = new MemoryBudget(1_024)
  const fill = (owner: string): number => {
    const share = budget.shareOf(owner)
    while (share.reserve(1)) {}
    return share.heldBytes
  }
  t.same(['a', 'b', 'c'].map(fill), [512, 256, 128])
  budget.shareOf('a').release(512)
  t.equal(fill('c'), 384, 'what one owner releases is shared out anew')
})

t.test('an owner that holds nothing gets any response that fits', async t => {
  const budget = new MemoryBudget(1_000)
  t.ok(budget.shareOf('a').reserve(900))
  t.notOk(budget.shareOf('a').reserve(1))
  t.notOk(budget.shareOf('b').reserve(101))
  t.ok(budget.shareOf('b').reserve(100))
})

t.test('a connection gets at most half of what its account may hold', async t => {
  const budget = new MemoryBudget(1_200)
  const [one, other] = [new CallerMemory(budget, 'account'), new CallerMemory(budget, 'account')]
  while (one.reserve(1)) {}
  t.equal(one.heldBytes, 400)
  t.ok(other.reserve(1))
})

t.test('the calls of a batch stop at a quarter of what is free, as their responses need room too', async t => {
  const budget = new MemoryBudget(1_000_000)
  const caller = new CallerMemory(budget, 'account')
  while (caller.reserveCall()) {}
  t.ok(caller.heldBytes > 150_000 && caller.heldBytes < 220_000, `${caller.heldBytes} bytes`)
})

t.test('what a caller holds becomes its account’s when the account is known', async t => {
  const budget = new MemoryBudget(1_000)
  const caller = new CallerMemory(budget, '127.0.0.1')
  t.ok(caller.reserve(10))
  caller.setOwner('account')
  caller.setOwner('account')
  t.ok(caller.reserve(5))
  t.same([budget.shareOf('127.0.0.1').heldBytes, budget.shareOf('account').heldBytes], [0, 15])
  caller.release(5)
  caller.releaseAll()
  caller.releaseAll()
  t.same([caller.heldBytes, budget.shareOf('account').heldBytes, budget.reservedBytes], [0, 0, 0])
})

t.test('long responses of nodes give way to short ones when the share of their network is exhausted', async t => {
  const budget = new MemoryBudget(1 << 20)
  const share = budget.shareOf('network')
  const arrive = (responses: number[], chunk: number): void => {
    let isGrowing = true
    while (isGrowing) {
      isGrowing = false
      for (const [i, held] of responses.entries()) {
        if (!share.reserve(chunk, held)) continue
        responses[i] = held + chunk
        isGrowing = true
      }
    }
  }
  const long = Array<number>(20).fill(0)
  arrive(long, 1_000)
  t.ok(budget.freeBytes > 100_000, `${budget.freeBytes} bytes`)
  t.ok(share.reserve(10_000, 0), 'a short one still arrives')
  t.notOk(share.reserve(1_000, Math.max(...long)))
})

t.test('shares that hold nothing are forgotten, others are not', async t => {
  const budget = new MemoryBudget(1_000_000)
  const [idle, busy] = [budget.shareOf('idle'), budget.shareOf('busy')]
  busy.reserve(1)
  for (let i = 0; i < 1_000; i += 1) budget.shareOf(`owner ${i}`)
  t.equal(budget.shareOf('busy'), busy)
  t.not(budget.shareOf('idle'), idle)
})

t.test('a network has one share, also for an upstream client that keeps it while it holds nothing', async t => {
  const budget = new MemoryBudget(1_000_000)
  const before = budget.responseMemoryOf('mainnet')
  for (let i = 0; i < 1_001; i += 1) budget.shareOf(`owner ${i}`)
  const afterReload = budget.responseMemoryOf('mainnet')
  t.ok(before.reserve(500_000, Infinity))
  t.notOk(afterReload.reserve(1, Infinity), 'the network has half of the budget')
  before.release(500_000)
  t.ok(afterReload.reserve(1, Infinity))
  t.equal(budget.reservedBytes, 1)
})

t.test('handling a message is reserved by its length: much for many values, less for a long string', async t => {
  t.ok(handlingBytes(100) < 12_000)
  t.ok(handlingBytes(75_000) > 25_000 * 64, '25,000 empty arrays take 64 bytes each')
  t.ok(handlingBytes(1 << 20) < 6 << 20)
})
