import { definePlugin, assertKnownMethods } from '../../src/plugin/plugin.ts'
import type { Path, ReportProblem, Secret, Target } from '../../src/plugin/plugin.ts'
import { RetryBudget } from './retry-budget.ts'
import { newestBlockNumber } from './history-age.ts'
import { UpstreamNode } from './upstream-node.ts'
import { failoverOptions } from './failover-options.ts'
import { createSelectionOrder } from './selection-order.ts'
import { mayForward, PartnerNode } from './partner-node.ts'
import { FailoverAttempt } from './failover-attempt.ts'

/** Asks one node after another until one answers; then, for plans that qualify, the partner (contract 4.3.4). */
export default definePlugin({
  name: 'failover',
  summary: 'Chooses the node for a call: the first that can answer, then the partner for plans that qualify.',
  options: failoverOptions,
  reads: ['request', 'account'],
  writes: ['target'],
  repeats: true,
  vary: (notes, { partner }, origin) => (partner !== undefined && mayForward(partner, notes, origin) ? 'forwarding' : ''),
  check({ upstreams, partner, breaker }, report) {
    upstreams.forEach(({ url }, i) => checkHttpScheme(url, ['upstreams', i, 'url'], report))
    if (partner !== undefined) checkHttpScheme(partner.url, ['partner', 'url'], report)
    const names = upstreams.map(upstream => upstream.name)
    names.forEach((name, i) => {
      if (names.indexOf(name) < i) report(['upstreams', i, 'name'], `two upstreams are named "${name}"`)
    })
    if (partner !== undefined && names.includes(partner.name)) {
      report(['partner', 'name'], `an upstream is named "${partner.name}" too`)
    }
    upstreams.forEach(({ ws }, i) => {
      if (ws !== undefined && !/^wss?:/i.test(ws.reveal())) report(['upstreams', i, 'ws'], 'ws must begin with ws:// or wss://')
    })
    for (const name of ['window', 'openFor'] as const) {
      if (breaker[name] === 0) report(['breaker', name], `breaker.${name} must be greater than 0`)
    }
  },
  create({ upstreams, partner, breaker, hedge, maxLag }, services) {
    const forwardedMethods = partner?.methods.map((method, i) => ({ path: ['partner', 'methods', i], method })) ?? []
    assertKnownMethods(forwardedMethods, services.methods)
    const targets = upstreams.map(({ weight: _share, ...upstream }): Target => ({ ...upstream, source: 'node' }))
    const nodes = targets.map(target => new UpstreamNode(target, breaker, services))
    const partnerNode = partner && new PartnerNode(partner, breaker, services)
    const selectionOrder = createSelectionOrder(
      nodes,
      upstreams.map(upstream => upstream.weight),
    )
    const budget = new RetryBudget(services.clock)
    let unfollow = () => {}
    return {
      async start() {
        unfollow = services.heads.track(targets, { maxLag })
      },
      handle(call, next) {
        const { request } = call.context
        const method = services.methods.get(request.method)
        const methodClass = method?.class ?? 'other'
        services.heads.recordActivity()
        const newestBlock = nodes.length > 1 ? newestBlockNumber(request, services) : undefined
        const candidates = services.heads.orderUpstreams(
          selectionOrder(node => node.isUsable(methodClass)),
          newestBlock,
        )
        const selection = { methodClass, method, candidates, retryBudget: budget, clock: services.clock, mayHedge: hedge }
        const mayForwardCall = partner !== undefined && mayForward(partner, call.context, call.origin)
        return new FailoverAttempt(call, next, selection).run(mayForwardCall ? partnerNode : undefined)
      },
      async stop() {
        unfollow()
        for (const each of [...nodes, ...(partnerNode ? [partnerNode] : [])]) each.stop()
      },
    }
  },
})

const checkHttpScheme = (url: Secret, path: Path, report: ReportProblem): void => {
  if (!/^https?:/i.test(url.reveal())) report(path, 'nodes are asked over HTTP: the URL must begin with http:// or https://')
}
