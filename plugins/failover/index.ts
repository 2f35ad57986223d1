import { definePlugin, mustBeInTable } from '../../src/plugin.ts'
import type { Path, Report, Secret, Target } from '../../src/plugin.ts'
import { Budget } from './budget.ts'
import { newestOf } from './depth.ts'
import { Node } from './node.ts'
import { options } from './options.ts'
import { openOrder } from './order.ts'
import { mayForward, PartnerNode } from './partner.ts'
import { Route } from './route.ts'

/** Asks one node after another until one answers; then, for plans that qualify, the partner (contract 4.3.4). */
export default definePlugin({
  name: 'failover',
  summary: 'Chooses the node for a call: the first that can answer, then the partner for plans that qualify.',
  options,
  reads: ['request', 'account'],
  writes: ['target'],
  repeats: true,
  vary: (notes, { partner }, origin) => (partner !== undefined && mayForward(partner, notes, origin) ? 'forwarding' : ''),
  check({ upstreams, partner, breaker }, report) {
    upstreams.forEach(({ url }, i) => checkScheme(url, ['upstreams', i, 'url'], report))
    if (partner !== undefined) checkScheme(partner.url, ['partner', 'url'], report)
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
    for (const name of ['window', 'pause'] as const) {
      if (breaker[name] === 0) report(['breaker', name], `breaker.${name} must be more than nothing`)
    }
  },
  create({ upstreams, partner, breaker, hedge, maxLag }, services) {
    const forwarded = partner?.methods.map((method, i) => ({ path: ['partner', 'methods', i], method })) ?? []
    mustBeInTable(forwarded, services.methods)
    const targets = upstreams.map(({ weight: _share, ...upstream }): Target => ({ ...upstream, source: 'node' }))
    const nodes = targets.map(target => new Node(target, breaker, services))
    const helper = partner && new PartnerNode(partner, breaker, services)
    const order = openOrder(
      nodes,
      upstreams.map(upstream => upstream.weight),
    )
    const budget = new Budget(services.clock)
    let leave = () => {}
    return {
      async start() {
        leave = services.heads.follow(targets, { maxLag })
      },
      handle(call, next) {
        const { request } = call.notes
        const method = services.methods.get(request.method)
        const kind = method?.class ?? 'other'
        services.heads.touch()
        const newest = nodes.length > 1 ? newestOf(request, services) : undefined
        const own = services.heads.choose(
          order(node => node.isUsable(kind)),
          newest,
        )
        const choice = { kind, method, own, budget, clock: services.clock, mayHedge: hedge }
        const mayHelp = partner !== undefined && mayForward(partner, call.notes, call.origin)
        return new Route(call, next, choice).run(mayHelp ? helper : undefined)
      },
      async stop() {
        leave()
        for (const each of [...nodes, ...(helper ? [helper] : [])]) each.stop()
      },
    }
  },
})

const checkScheme = (url: Secret, path: Path, report: Report): void => {
  if (!/^https?:/i.test(url.reveal())) report(path, 'nodes are asked over HTTP: the URL must begin with http:// or https://')
}
