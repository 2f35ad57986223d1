import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { Plan } from '../../../src/plugin/call.ts'
import { openAccounts } from '../../../src/services/accounts/index.ts'
import type { Lookup } from '../../../src/services/accounts/index.ts'
import { generateApiKey } from '../../../src/services/accounts/api-key.ts'
import { changeGroupOf, storeTimeoutMs } from '../../../src/store/store.ts'
import type { AccountStore, KeyWithAccount } from '../../../src/store/store.ts'
import { TestClock } from '../../support/fakes.ts'

/** An event. `early`: the store has read its answer when the request arrived, and not when it answers. */
type Step =
  | { readonly do: 'find' | 'change another' }
  | { readonly do: 'notify'; readonly of: string | undefined }
  | { readonly do: 'answer'; readonly index: number; readonly early: boolean }
  | { readonly do: 'fail'; readonly index: number }
  | { readonly do: 'change'; readonly change: keyof typeof changes }
  | { readonly do: 'advance'; readonly ms: number }

const plan: Plan = { name: 'core', dailyCredits: 1_000, forwarding: false }

/** By the number of changes so far: each leads to a row that never was before. */
const changes = {
  credits: (row: KeyWithAccount, n: number) => ({ ...row, account: { ...row.account, credits: n } }),
  plan: (row: KeyWithAccount, n: number) => ({
    ...row,
    account: { ...row.account, plan: row.account.plan === 'core' ? `gone-${n}` : 'core', credits: n },
  }),
  networks: (row: KeyWithAccount, n: number) => ({ ...row, key: { ...row.key, networks: [`network-${n}`] } }),
  revoke: (row: KeyWithAccount, n: number) => ({ ...row, key: { ...row.key, revoked: n } }),
}

const index = fc.nat(20)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('find' as const) }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('answer' as const), index, early: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fail' as const), index }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('change' as const), change: fc.constantFrom('credits', 'plan', 'networks', 'revoke') }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('notify' as const), of: fc.constantFrom(undefined, 'acc_1', 'acc_2') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('change another' as const) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1, 99, 400, 500, 700) }) },
)

interface Request {
  readonly at: number
  answer(early: boolean): void
  fail(): void
}

/** After a failure, no call waits for longer. */
const maxCheckWaitMs = 300

const drainEventLoop = () => new Promise(setImmediate)

/** One key in a remote store that answers, fails and changes as the steps say. */
class LookupRun {
  readonly #clock = new TestClock()
  readonly #key = generateApiKey()
  readonly #requests: Request[] = []
  readonly #listeners: ((group?: number) => void)[] = []
  /** What the key was, each row until the next one's time. */
  readonly #history: { readonly at: number; readonly row: KeyWithAccount }[] = [
    {
      at: -Infinity,
      row: {
        key: { id: 'key_1', account: 'acc_1', created: 1, hint: 'wxyz' },
        account: { id: 'acc_1', name: 'alice', plan: 'core', created: 1 },
      },
    },
  ]
  #otherChanges = 0
  #failedAt = -Infinity
  readonly #accounts
  readonly errors: string[] = []

  constructor() {
    const store: Pick<AccountStore, 'subscribe' | 'changeCount' | 'changeCounts' | 'findKey' | 'revokeKey'> = {
      subscribe: listener => {
        this.#listeners.push(listener)
        return () => undefined
      },
      changeCount: () => this.#request(() => this.#history.length + this.#otherChanges),
      changeCounts: () =>
        this.#request(() => ({
          total: this.#history.length + this.#otherChanges,
          byGroup: new Map([
            [changeGroupOf('acc_1'), this.#history.length],
            [changeGroupOf('acc_2'), this.#otherChanges],
          ]),
        })),
      findKey: () => this.#request(() => this.#row),
      // An answer that is older than one before it looks like a revocation that the store has lost.
      revokeKey: async () => {
        const { key } = this.#row
        if (key.revoked === undefined) this.errors.push('a key was revoked that nobody has revoked')
        return key
      },
    }
    // The look-up uses no other method.
    this.#accounts = openAccounts(store as AccountStore, { core: plan }, this.#clock)
  }

  async run(steps: readonly Step[]): Promise<readonly string[]> {
    for (const each of steps) {
      this.#do(each)
      await drainEventLoop()
    }
    await this.#checkAfterRecovery()
    return this.errors
  }

  #do(event: Step): void {
    switch (event.do) {
      case 'find':
        return void this.#find()
      case 'answer':
        return this.#take(event.index)?.answer(event.early)
      case 'fail':
        return this.#fail(this.#take(event.index))
      case 'change':
        this.#history.push({ at: this.#clock.monotonic(), row: changes[event.change](this.#row, this.#history.length) })
        return
      case 'notify':
        return this.#listeners.forEach(listener => listener(event.of === undefined ? undefined : changeGroupOf(event.of)))
      case 'change another':
        this.#otherChanges += 1
        return
      case 'advance':
        this.#clock.advance(event.ms)
        for (const late of this.#requests.filter(({ at }) => at + storeTimeoutMs <= this.#clock.monotonic())) {
          this.#fail(this.#take(this.#requests.indexOf(late)))
        }
    }
  }

  get #row(): KeyWithAccount {
    return this.#history.at(-1)?.row as KeyWithAccount // it begins with a row
  }

  #take(at: number): Request | undefined {
    return this.#requests.splice(at % Math.max(1, this.#requests.length), 1)[0]
  }

  #fail(request: Request | undefined): void {
    if (request === undefined) return
    this.#failedAt = this.#clock.monotonic()
    request.fail()
  }

  #request<T>(read: () => T): Promise<T> {
    const first = read()
    return new Promise((resolve, reject) =>
      this.#requests.push({
        at: this.#clock.monotonic(),
        answer: early => resolve(early ? first : read()),
        fail: () => reject(new Error('connection refused')),
      }),
    )
  }

  /** A result was true within the last second; only while the store fails may it be older, which it does until it answers again. */
  async #find(): Promise<void> {
    const from = this.#clock.monotonic()
    const isSilent = this.#failedAt > -Infinity && this.#requests.some(({ at }) => from - at >= maxCheckWaitMs)
    const found = await this.#accounts.find(this.#key)
    if (isSilent) return
    if (this.#failedAt >= from - 500) return
    const rows = this.#history.filter((_, i) => (this.#history[i + 1]?.at ?? Infinity) >= from - 1_000)
    if (rows.some(({ row }) => describe(found) === expected(row))) return
    this.errors.push(`${describe(found)} was found at ${from}, and was not true within a second`)
  }

  async #answerAll(): Promise<void> {
    while (this.#requests.length > 0) {
      this.#take(0)?.answer(false)
      await drainEventLoop()
    }
  }

  async #checkAfterRecovery(): Promise<void> {
    await this.#answerAll()
    this.#clock.advance(500)
    await this.#answerAll() // a check may have begun without a call
    const finding = Promise.resolve(this.#accounts.find(this.#key))
    for (let rounds = 0; rounds < 3; rounds += 1) {
      await drainEventLoop()
      this.#take(0)?.answer(false)
    }
    const found = await finding
    if (describe(found) !== expected(this.#row))
      this.errors.push(`${describe(found)} was found long after it became ${expected(this.#row)}`)
  }
}

const describe = (found: Lookup): string => {
  if (found.kind !== 'granted') return found.kind
  return `granted ${found.account.plan.dailyCredits} ${String(found.key.networks)}`
}

const expected = ({ key, account }: KeyWithAccount): string => {
  if (key.revoked !== undefined) return 'revoked'
  return account.plan === 'core' ? `granted ${account.credits ?? plan.dailyCredits} ${String(key.networks)}` : 'planNotFound'
}

/** A check needs two requests after a change: the store has failed, and has answered the first of them late. */
const answeredHalf: readonly Step[] = [
  { do: 'find' },
  { do: 'answer', index: 0, early: false },
  { do: 'change', change: 'credits' },
  { do: 'answer', index: 0, early: true },
  { do: 'find' },
  { do: 'advance', ms: 500 },
  { do: 'find' },
  { do: 'advance', ms: 1 },
  { do: 'fail', index: 0 },
  { do: 'advance', ms: 700 },
  { do: 'answer', index: 0, early: false },
  { do: 'find' },
  { do: 'answer', index: 0, early: false },
  { do: 'answer', index: 0, early: false },
]

t.test('a change takes effect within a second, in any order of look-ups, failures and changes', async t => {
  const run = fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async steps => {
    const errors = await new LookupRun().run(steps)
    if (errors.length > 0) throw new Error(errors.join('\n'))
  })
  await t.resolves(fc.assert(run, { numRuns: 300, examples: [[answeredHalf]] }))
})
