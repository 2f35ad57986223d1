import { directStage, formatCount } from '../../src/plugin/internal.ts'
import type { OutageGrace } from '../../src/plugin/internal.ts'
import { assertKnownMethods, definePlugin } from '../../src/plugin/plugin.ts'
import type { ExplainedCall, Explanation } from '../../src/plugin/plugin.ts'
import { createCharging, createChargingHandler } from './charge-and-refund.ts'
import { FailureLimit } from './failure-limit.ts'

/** Contract 1.4 and 8: each call costs credits of the account's day. */
export default definePlugin({
  name: 'credits',
  summary: "Charges the cost of the method to the account's daily credits, and refunds it when nothing was delivered.",
  whenMissing: 'callers may make any number of calls, free of charge',
  options: {
    type: 'object',
    properties: {
      costs: {
        type: 'object',
        additionalProperties: { type: 'integer', minimum: 0 },
        default: {},
        description: 'Credits per call by method, in place of `cost` in the method table.',
        examples: [{ eth_call: 40 }],
      },
      onStoreOutage: {
        type: 'string',
        enum: ['closed', 'grace', 'open'],
        default: 'closed',
        description:
          'While the store is unreachable and the leased credits are used up: closed refuses calls (503), grace grants `grace` ' +
          'credits, open grants any number for 5 minutes. Granted credits are charged when the store is reachable again.',
      },
      grace: {
        type: 'integer',
        minimum: 1,
        description: 'With `onStoreOutage: grace`: credits granted in one outage, per process and account.',
        examples: [10_000],
      },
    },
  },
  reads: ['request', 'key', 'account'],
  writes: ['account'],
  once: true,
  check({ onStoreOutage, grace }, report) {
    if (onStoreOutage === 'grace' && grace === undefined)
      report([], '`onStoreOutage: grace` requires `grace`: the credits granted in one outage, for example 10000')
    if (onStoreOutage !== 'grace' && grace !== undefined)
      report(['grace'], `\`grace\` applies only with \`onStoreOutage: grace\`, not with \`onStoreOutage: ${onStoreOutage}\``)
  },
  create({ costs, onStoreOutage, grace = 0 }, services) {
    const { clock, ledger, methods, singleton } = services
    assertKnownMethods(
      Object.keys(costs).map(method => ({ path: ['costs', method], method })),
      methods,
    )
    const ownCosts = new Map(Object.entries(costs))
    const failureLimit = singleton('failure limit', {}, () => new FailureLimit(clock))
    const charge = createCharging(ledger, outageGraceOf(onStoreOutage, grace))
    return directStage({
      handle: createChargingHandler({ charge, failureLimit }, services),
      events: { charge },
      explain: explainCharge,
      priceOf: (credits, { request }) => ownCosts.get(request.method) ?? credits,
      describeMethods: described => described.map(method => ({ ...method, credits: ownCosts.get(method.name) ?? method.credits })),
    })
  },
})

const explainCharge = ({ credits, creditsLeft, keyCreditsLeft }: ExplainedCall): Explanation => {
  const text = [`charges ${formatCount(credits)} credits; a call that delivers nothing is refunded`]
  if (creditsLeft === undefined) return { text }
  text.push(`the account has ${formatCount(creditsLeft)} credits left today`)
  if (keyCreditsLeft !== undefined) text.push(`the key has ${formatCount(keyCreditsLeft)} credits left of its daily limit`)
  return { text, ...(Math.min(creditsLeft, keyCreditsLeft ?? Infinity) < credits && { ends: 'refused' }) }
}

const outageGraceOf = (onStoreOutage: 'closed' | 'grace' | 'open', credits: number): OutageGrace | undefined => {
  switch (onStoreOutage) {
    case 'closed':
      return undefined
    case 'grace':
      return { maxCredits: credits, maxDurationMs: Infinity }
    case 'open':
      return { maxCredits: Infinity, maxDurationMs: openGraceMs }
  }
}

/** Bounds how long a key that was revoked during the outage is served. */
const openGraceMs = 300_000
