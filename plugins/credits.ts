import { definePlugin, isCharged, isFailure, mustBeInTable, refuse, withCredits } from '../src/plugin.ts'
import type { Call, Charge, CountedCall, Failure, Grace, Kind, Next, Reply, Usage, Verdict } from '../src/plugin.ts'

/** Contract 1.4 and 8: each call costs credits of the account's day. */
export default definePlugin({
  name: 'credits',
  summary: "Draws the cost of the method from the account's daily credits, and gives it back when nothing was delivered.",
  options: {
    type: 'object',
    properties: {
      costs: {
        type: 'object',
        additionalProperties: { type: 'integer', minimum: 0 },
        default: {},
        description: 'Credits per call by method, over those of the method table.',
      },
      away: {
        type: 'string',
        enum: ['closed', 'grace', 'open'],
        default: 'closed',
        description:
          'While the store is away and the credits in hand are spent: closed refuses (503), grace lends `grace` credits, ' +
          'open lends what is asked for, for 5 minutes. What was lent is charged when the store is back.',
      },
      grace: {
        type: 'integer',
        minimum: 1,
        description: 'With `away: grace`: the credits lent in one outage, per process and account.',
      },
    },
  },
  reads: ['request', 'key', 'account'],
  once: true,
  check({ away, grace }, report) {
    if (away === 'grace' && grace === undefined) report([], '`away: grace` needs `grace`: how many credits may be lent, for example 10000')
    if (away !== 'grace' && grace !== undefined)
      report(['grace'], `\`grace\` says nothing with \`away: ${away}\`; write \`away: grace\` beside it`)
  },
  create({ costs, away, grace = 0 }, { ledger, methods, network, usage }) {
    mustBeInTable(
      Object.keys(costs).map(method => ({ path: ['costs', method], method })),
      methods,
    )
    const prices = new Map(methods.names.map(name => [name, methods.get(name)?.cost ?? methods.defaultCost]))
    for (const [name, cost] of Object.entries(costs)) prices.set(name, cost)
    const lent = graceOf(away, grace)

    return (call, next) => {
      const {
        request: { method },
        account,
      } = call.notes
      const price = prices.get(method)
      const cost = price ?? methods.defaultCost
      const deal: Deal = { usage, network: network.name, method: price === undefined ? 'other' : method, cost }
      const verdict = ledger.charge(account, cost, lent)
      return verdict instanceof Promise ? verdict.then(late => serve(late, deal, call, next)) : serve(verdict, deal, call, next)
    }
  },
})

/** What is known of a call before it is charged. */
interface Deal {
  readonly usage: Usage
  readonly network: string
  readonly method: string
  readonly cost: number
}

type Reads = 'request' | 'key' | 'account'
type Charged = Extract<Verdict, { kind: 'charged' }>

const graceOf = (away: 'closed' | 'grace' | 'open', credits: number): Grace | undefined => {
  switch (away) {
    case 'closed':
      return undefined
    case 'grace':
      return { credits, lasts: Infinity }
    case 'open':
      return { credits: Infinity, lasts: openFor }
  }
}

/** As long as a key that was revoked meanwhile may go on, in ms. */
const openFor = 300_000

const serve = async (verdict: Verdict, deal: Deal, call: Call<Reads>, next: Next<Reads>): Promise<Reply> => {
  if (verdict.kind !== 'charged') {
    const refusal = refusalOf(verdict)
    deal.usage.count(countOf(deal, call, refusal, undefined, 0))
    return refusal
  }
  try {
    const reply = await next(call)
    if (!isCharged(reply)) return giveBack(verdict, deal, call, reply)
    const counted = countOf(deal, call, reply, verdict.day, deal.cost)
    deal.usage.count(counted)
    return withCredits(reply, deal.cost, verdict.budget, new Kept(verdict, deal.usage, counted))
  } catch (bug) {
    giveBack(verdict, deal, call, internal)
    throw bug
  }
}

const internal = refuse('internal')

const giveBack = (verdict: Charged, deal: Deal, call: Call<Reads>, reply: Reply): Reply => {
  const credits = verdict.refund() ? 0 : deal.cost
  deal.usage.count(countOf(deal, call, reply, verdict.day, credits))
  return withCredits(reply, 0, verdict.budget)
}

const countOf = (
  { network, method }: Deal,
  { notes: { account, key } }: Call<Reads>,
  reply: Reply,
  day: number | undefined,
  credits: number,
): CountedCall => ({
  account: account.id,
  key: key.id,
  network,
  method,
  outcome: isFailure(reply) ? reply.kind : 'ok',
  forwarded: reply.source === 'partner',
  day,
  calls: 1,
  credits,
})

/** A charge that is kept and counted, until the door finds that it cannot deliver. */
class Kept implements Charge {
  readonly #charge: Charged
  readonly #usage: Usage
  readonly #counted: CountedCall

  constructor(charge: Charged, usage: Usage, counted: CountedCall) {
    this.#charge = charge
    this.#usage = usage
    this.#counted = counted
  }

  refund(outcome: Kind): void {
    if (!this.#charge.refund()) return
    this.#usage.count({ ...this.#counted, calls: -1, credits: -this.#counted.credits })
    this.#usage.count({ ...this.#counted, outcome, credits: 0 })
  }
}

const refusalOf = (verdict: Exclude<Verdict, { kind: 'charged' }>): Failure =>
  verdict.kind === 'away'
    ? away
    : {
        ...refuse('spent', {
          data: { limit: verdict.limit, used: verdict.used, resetAt: new Date(verdict.resetAt).toISOString() },
        }),
        budget: verdict.budget,
      }

const away = refuse('unavailable', {
  message: 'credits cannot be drawn now',
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 2,
})
