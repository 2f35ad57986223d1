import { randomInt } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { createKey, generateAccountId } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Store } from '../../src/store/store.ts'
import { getOrCreate } from '../../src/util/memoize.ts'
import type { Deployment } from '../support/deployment.ts'
import { waitUntil } from '../support/wait-until.ts'
import { openLibraryCaller } from './library-callers.ts'
import type { Library } from './library-callers.ts'
import { WebSocketCaller } from './web-socket-caller.ts'

/** What a call costs that the callers send. */
export const callCost = 80

/** The credits of the day are used up. */
const exhaustedCode = -33_000

/** After a call that failed, a caller waits so long. */
const retryDelayMs = 20

/** A result of eth_getBalance, by its address: nobody else gets the same. */
export const balanceOf = (address: string): string => `0x1${address.slice(-12)}`

const randomAddress = () =>
  `0x${'ab'.repeat(14)}${randomInt(2 ** 47)
    .toString(16)
    .padStart(12, '0')}`

export interface CreditAccount {
  readonly dailyCredits: number
  readonly callers: number
  /** What its callers send calls with: `fetch` unless given. A library takes an error as a reason to reject: its account must not use up its balance. */
  readonly client?: 'webSocket' | Library | undefined
}

interface AuditRow {
  readonly account: string
  readonly leased: number
  readonly used: number
  readonly counted: number
  readonly forfeited: number
  readonly faults: readonly string[]
}

const newCounts = () => new Map<number, number>()

const emptyRow = { leased: 0, used: 0, counted: 0, forfeited: 0 }

/** An account at the end: what its callers got, and what the store says. */
export interface CreditSummary {
  readonly account: string
  readonly forfeited: number
  /** Credits of results beyond the balance, or beyond what the store has leased. */
  readonly servedOver: number
  /** Credits that were used beyond those of results. */
  readonly usedOver: number
  /** Calls that were charged and are missing in the usage counts. */
  readonly uncountedCalls: number
  /** What the audit finds, uncounted calls among it. */
  readonly faults: readonly string[]
}

/** `fetch` has the reason in its cause. */
const formatError = ({ message, cause }: Error): string => (cause instanceof Error ? `${message}: ${cause.message}` : message)

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  )

interface CreditCallersOptions {
  readonly deployment: Deployment
  /** By name. The plan of an account has its name. */
  readonly accounts: Readonly<Record<string, CreditAccount>>
  /** Between a result and the next call of a caller. */
  readonly pauseMs?: number
  /** Where the next call goes; undefined while there is no gateway. */
  urlOf(key: string): string | undefined
  /** The same for WebSockets. */
  webSocketUrlOf?(key: string): string | undefined
  log(line: string): void
}

/** Callers who check each result, and count them for a comparison with the audit of the store. */
export class CreditCallers {
  readonly #options: CreditCallersOptions
  readonly #keys = new Map<string, string>()
  /** When results arrived, by account. */
  readonly servedAt = new Map<string, number[]>()
  /** When calls failed, but for those beyond a balance. */
  readonly failedAt: number[] = []
  /** Why and when, one line each. */
  readonly failures: string[] = []
  /** Results that no call has, and results of another call. */
  readonly found = { wrong: 0, crossed: 0 }
  /** How often each error was the answer, by account and code. */
  readonly errors = new Map<string, Map<number, number>>()
  readonly #webSockets: WebSocketCaller[] = []
  #running: Promise<unknown> = Promise.resolve()
  #isStopping = false

  constructor(options: CreditCallersOptions) {
    this.#options = options
  }

  /** Results of calls so far. */
  get results(): number {
    return [...this.servedAt.values()].reduce((sum, { length }) => sum + length, 0)
  }

  async addAccounts(): Promise<void> {
    const { deployment, accounts } = this.#options
    for (const account of Object.keys(accounts)) {
      await deployment.addAccount(account, account)
      this.#keys.set(account, (await deployment.addKey(account)).key)
      this.servedAt.set(account, [])
    }
  }

  /** The same in a store that no command reaches as fast. */
  async addAccountsTo(store: Store): Promise<void> {
    const add = async (name: string): Promise<void> => {
      const id = generateAccountId()
      await store.addAccount({ id, name, plan: name, created: systemClock.now() })
      this.#keys.set(name, (await createKey(store, systemClock, id)).key.reveal())
      this.servedAt.set(name, [])
    }
    const addOther = (id: string) => store.addAccount({ id, name: id, plan: Object.keys(this.#options.accounts)[0] ?? '', created: 1 })
    // The first confirmation of a replica may be late on a loaded machine.
    await waitUntil(() => succeeds(addOther(generateAccountId())))
    await Promise.all(Object.keys(this.#options.accounts).map(add))
  }

  start(): void {
    const callers = Object.entries(this.#options.accounts).flatMap(([account, of]) => new Array<string>(of.callers).fill(account))
    this.#running = Promise.all(callers.map(account => this.#sendCalls(account)))
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#running
    for (const caller of this.#webSockets) caller.close()
  }

  /** How often WebSockets were closed and opened again, and how many of them were not closed by a gateway that stops. */
  get webSocketCounts(): { readonly reconnects: number; readonly broken: number } {
    const sum = (of: (caller: WebSocketCaller) => number) => this.#webSockets.reduce((total, caller) => total + of(caller), 0)
    return { reconnects: sum(caller => caller.reconnectCount), broken: sum(caller => caller.brokenCount) }
  }

  /** Compares what callers got with what the store says, once all gateways have ended. */
  async audit(): Promise<readonly CreditSummary[]> {
    const { deployment, accounts, log } = this.#options
    const { stdout, stderr } = await deployment.run('audit', '--json')
    if (!stdout.startsWith('[')) throw new Error(`audit: ${stderr}`)
    const rows = JSON.parse(stdout) as readonly AuditRow[] // as the command promises
    return Object.entries(accounts).map(([account, { dailyCredits }]) => {
      const row = rows.find(each => each.account === account)
      const { leased, used, counted, forfeited, faults } = row ?? { ...emptyRow, faults: ['not in the audit'] }
      for (const fault of faults) log(`${account}: ${fault}`)
      const served = callCost * (this.servedAt.get(account)?.length ?? 0)
      const servedOver = Math.max(0, served - dailyCredits, served - leased)
      return {
        account,
        forfeited,
        servedOver,
        usedOver: Math.max(0, used - served),
        uncountedCalls: Math.max(0, used - counted) / callCost,
        faults,
      }
    })
  }

  async #sendCalls(account: string): Promise<void> {
    const { pauseMs = 0, accounts } = this.#options
    const send = this.#openClient(account, accounts[account]?.client)
    while (!this.#isStopping) {
      const address = randomAddress()
      const found = await this.#request(account, address, send).catch((error: Error) => this.#recordFailure(account, formatError(error)))
      if (found !== undefined) this.#check(account, address, found)
      if (found === undefined || pauseMs > 0) await setTimeout(Math.max(retryDelayMs, pauseMs))
    }
  }

  #openClient(account: string, client: CreditAccount['client']): (body: string) => Promise<string | undefined> {
    if (client === 'webSocket') return this.#openWebSocket(account)
    if (client === undefined) return body => this.#post(account, body)
    return openLibraryCaller(client, this.#options.urlOf(this.#keys.get(account) ?? '') ?? '')
  }

  #openWebSocket(account: string): (body: string) => Promise<string> {
    const caller = new WebSocketCaller(() => this.#options.webSocketUrlOf?.(this.#keys.get(account) ?? ''))
    this.#webSockets.push(caller)
    return body => caller.request(body)
  }

  /** Undefined while there is no gateway. */
  async #post(account: string, body: string): Promise<string | undefined> {
    const url = this.#options.urlOf(this.#keys.get(account) ?? '')
    if (url === undefined) return undefined
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    return response.text()
  }

  /** Undefined for an error: calls may fail while something is down. */
  async #request(account: string, address: string, send: (body: string) => Promise<string | undefined>): Promise<string | undefined> {
    const answer = await send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [address, '0x5'] }))
    if (answer === undefined) return undefined
    const { result, error } = JSON.parse(answer) as {
      readonly result?: string
      readonly error?: { readonly code: number; readonly message: string }
    }
    if (error !== undefined) {
      if (error.code !== exhaustedCode) this.#recordFailure(account, `${error.code} ${error.message}`)
      const counts = getOrCreate(this.errors, account, newCounts)
      counts.set(error.code, (counts.get(error.code) ?? 0) + 1)
    }
    return result
  }

  #recordFailure(account: string, reason: string): undefined {
    this.failedAt.push(performance.now())
    this.failures.push(`${new Date().toISOString()} ${account}: ${reason}`)
  }

  #check(account: string, address: string, result: string): void {
    this.servedAt.get(account)?.push(performance.now())
    if (result === balanceOf(address)) return
    this.found[/^0x1[0-9a-f]{12}$/.test(result) ? 'crossed' : 'wrong'] += 1
    this.#options.log(`${address} got ${result}`)
  }
}
