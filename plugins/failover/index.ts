import {
  assertKnownMethods,
  copyReply,
  definePlugin,
  metricDefinitions,
  refuseUnknownMethod,
  revealSecrets,
} from '../../src/plugin/plugin.ts'
import type { Target } from '../../src/plugin/plugin.ts'
import { createCapableUpstreams } from './capable-upstreams.ts'
import { FailoverAttempt } from './failover-attempt.ts'
import { failoverOptions } from './failover-options.ts'
import { explainSelection } from './explain-selection.ts'
import { createSelectionOrder, orderByShare, requiredBlockOf } from './node-order.ts'
import { mayForward, PartnerNode } from './partner-node.ts'
import { HedgeBudget } from './hedging.ts'
import { RetryBudget } from './retries.ts'
import { SlowNodes } from './slow-nodes.ts'
import { UpstreamNode } from './upstream-node.ts'

/** The variants of calls: those that may go to the partner, and those that get one attempt. */
const forwarding = 'forwarding'
const singleAttempt = 'single-attempt'

/** Requests one node after another until one answers; then, for plans that qualify, the partner (contract 4.3.4). */
export default definePlugin({
  name: 'failover',
  summary: 'Chooses the node for a call: the first that can answer, then the partner for plans that qualify.',
  options: failoverOptions,
  reads: ['request', 'account'],
  writes: ['target'],
  repeats: true,
  tracksHeads: true,
  vary(context, { partner }, origin) {
    if (context.account.singleAttempt === true) return singleAttempt
    return partner !== undefined && mayForward(partner, context, origin) ? forwarding : ''
  },
  check({ upstreams, partner, breaker }, report) {
    const names = upstreams.map(upstream => upstream.name)
    names.forEach((name, i) => {
      if (names.indexOf(name) < i) report(['upstreams', i, 'name'], `duplicate upstream name "${name}"`)
    })
    if (partner !== undefined && names.includes(partner.name)) {
      report(['partner', 'name'], `duplicate name "${partner.name}": an upstream has the same name`)
    }
    upstreams.forEach(({ archive, history }, i) => {
      if (archive && history !== undefined) report(['upstreams', i, 'history'], '`history` applies only without `archive: true`')
    })
    for (const name of ['window', 'openFor'] as const) {
      if (breaker[name] === 0) report(['breaker', name], `breaker.${name} must be greater than 0`)
    }
  },
  create({ upstreams, partner, breaker, hedge, maxLag }, services) {
    const forwardedMethods = partner?.methods.map((method, i) => ({ path: ['partner', 'methods', i], method })) ?? []
    const answeredMethods = upstreams.flatMap(({ methods = [] }, i) =>
      methods.map((method, j) => ({ path: ['upstreams', i, 'methods', j], method })),
    )
    assertKnownMethods([...forwardedMethods, ...answeredMethods], services.methods)
    const capableUpstreams = createCapableUpstreams(upstreams, services)
    const targets = upstreams.map(
      ({ weight: _, methods: __, archive: ___, history: ____, ...upstream }): Target => ({
        ...(/^ws/i.test(upstream.url.reveal()) && { ws: upstream.url }),
        ...upstream,
        source: 'node',
      }),
    )
    // Breakers outlive a reload that changes neither them nor the node; with other rules of methods they count other calls together.
    const learnedWith = { breaker, rules: services.methods.rulesId }
    const nodeOf = <N extends UpstreamNode>(node: object, create: () => N): N =>
      services.singleton('node', revealSecrets({ node, ...learnedWith }), create)
    const nodes = targets.map(target => nodeOf(target, () => new UpstreamNode(target, breaker, services)))
    const partnerNode = partner && nodeOf(partner, () => new PartnerNode(partner, breaker, services))
    const selectionOrder = createSelectionOrder(
      nodes,
      upstreams.map(upstream => upstream.weight),
    )
    const activeNodes: ReadonlySet<UpstreamNode> = new Set(nodes.filter((_, i) => upstreams[i]?.weight !== 0))
    const hedgeNodes = hedge ? activeNodes : noNodes
    const hedgeBudget = services.singleton('hedge budget', {}, () => new HedgeBudget(services.clock))
    const retryBudget = services.singleton('retry budget', {}, () => new RetryBudget(services.clock))
    const retriesOf = (kind: string) => services.metrics.counter(metricDefinitions.retries, { kind })
    const retries = { retry: retriesOf('retry'), hedge: retriesOf('hedge'), partner: retriesOf('partner') }
    const slowNodes = new SlowNodes(activeNodes, services.clock, services.methods.isHedgedClass)
    let stopTracking = () => {}
    return {
      async start() {
        slowNodes.start()
        stopTracking = services.heads.track(
          nodes.map(({ target }) => target),
          { maxLag },
        )
      },
      async handle(call, next) {
        const { heads, clock, methods } = services
        if (heads.mayLag) await heads.sync()
        const { request } = call.context
        const method = methods.get(request.method)
        const methodClass = method?.class ?? 'other'
        heads.recordActivity()
        if (capableUpstreams?.offers(request.method) === false) return refuseUnknownMethod(request.method)
        const capableNodes = capableUpstreams?.select(nodes, request, method) ?? nodes
        const requiredBlock = requiredBlockOf(request, method)
        const mayAnswer = (node: UpstreamNode) => node.isUsable(methodClass) && capableNodes.includes(node)
        const ordered = heads.orderUpstreams(
          orderByShare(selectionOrder(mayAnswer), activeNodes, methodClass, mayAnswer),
          typeof requiredBlock === 'number' ? requiredBlock : heads.snapshot.reportedHeight,
        )
        const candidates = capableUpstreams?.select(ordered, request, method) ?? ordered
        const mayRetry = call.variant !== singleAttempt && method?.retryable !== false
        const selection = {
          methodClass,
          method,
          candidates,
          requiredBlock,
          heads,
          retryBudget,
          retries,
          hedgeBudget,
          clock,
          mayRetry,
          isHedgeable: mayRetry && method?.idempotent === true && methods.isHedgedClass(methodClass),
          hedgeNodes,
        }
        const startedAt = clock.monotonic()
        const attempt = new FailoverAttempt(call, next, selection, call.variant === forwarding ? partnerNode : undefined)
        const reply = await attempt.run()
        const upstreamRequest = { id: call.origin.requestId, attempts: attempt.count, durationMs: clock.monotonic() - startedAt }
        return copyReply(reply, { upstreamRequest })
      },
      ...(capableUpstreams && { offers: capableUpstreams.offers }),
      explain(call) {
        const { methods } = services
        const method = methods.get(call.method)
        return explainSelection({ upstreams, partner, hedge: hedge && methods.isHedgedClass(method?.class ?? 'other') }, method, call)
      },
      async stop() {
        slowNodes.stop()
        stopTracking()
      },
    }
  },
})

const noNodes: ReadonlySet<UpstreamNode> = new Set()
