import { directStage, getOrCreate, refuseUnknownMethod } from '../../src/plugin/internal.ts'
import type { DirectHandler } from '../../src/plugin/internal.ts'
import { assertKnownMethods, createNameMatcher, definePlugin, withContext } from '../../src/plugin/plugin.ts'
import type { MethodDescription } from '../../src/plugin/internal.ts'
import type { ExplainedCall, Explanation, Method, Services, Target } from '../../src/plugin/plugin.ts'
import { CallFailover } from './call-failover.ts'
import { createUpstreamCapabilities } from './upstream-capabilities.ts'
import { checkTargetOptions, failoverOptions } from './failover-options.ts'
import type { FailoverOptions } from './failover-options.ts'
import { createNodeSelector, variantOf } from './node-selection.ts'
import { openNodes } from './open-nodes.ts'
import { mayForward } from './partner-node.ts'

/** Requests one node after another until one answers; then, for plans that qualify, the partner (contract 4.3.4). */
export default definePlugin({
  name: 'failover',
  summary: 'Chooses the node for a call: the first that can answer, then the partner for plans that qualify.',
  options: failoverOptions,
  reads: ['request', 'account'],
  writes: ['target', 'upstreams'],
  repeats: true,
  tracksHeads: true,
  vary(context, { partner }, origin) {
    const isForwarded = partner !== undefined && mayForward(partner, context, origin)
    return variantOf({ isForwarded, isSingleAttempt: context.account.singleAttempt === true })
  },
  check({ upstreams, partner }, report) {
    const names = upstreams.map(upstream => upstream.name)
    names.forEach((name, i) => {
      if (names.indexOf(name) < i) report(['upstreams', i, 'name'], `duplicate upstream name "${name}"`)
    })
    if (partner !== undefined && names.includes(partner.name)) {
      report(['partner', 'name'], `duplicate name "${partner.name}": an upstream has the same name`)
    }
    if (partner !== undefined) checkTargetOptions(partner, ['partner'], report)
    upstreams.forEach((upstream, i) => checkTargetOptions(upstream, ['upstreams', i], report))
    upstreams.forEach(({ archive, history }, i) => {
      if (archive && history !== undefined) report(['upstreams', i, 'history'], '`history` applies only without `archive: true`')
    })
  },
  create(options, services) {
    const { upstreams, partner, hedge, maxLag } = options
    checkMethods(options, services)
    const upstreamCapabilities = createUpstreamCapabilities(upstreams, services)
    const nodes = openNodes(options, services)
    const selectNodes = createNodeSelector(nodes, upstreamCapabilities, services)
    const { heads } = services
    const targets: readonly Target[] = Object.freeze(nodes.all.map(({ target }) => target))
    const targetsByDrained = new WeakMap<ReadonlySet<string>, readonly Target[]>()
    const targetsInUse = () =>
      getOrCreate(targetsByDrained, services.nodes.drained, drained => Object.freeze(targets.filter(({ name }) => !drained.has(name))))
    const request: DirectHandler<'request', 'target' | 'upstreams'> = (call, next) => {
      const { method } = call.context.request
      heads.recordActivity()
      if (upstreamCapabilities?.offers(method) === false) return refuseUnknownMethod(method)
      return new CallFailover(withContext(call, { upstreams: targetsInUse() }), next, selectNodes(call)).run()
    }
    let stopTracking = () => {}
    return directStage({
      async start() {
        nodes.slowNodes.start()
        stopTracking = heads.track(targets, { maxLag })
      },
      handle: (call, next) => (heads.mayLag ? heads.sync().then(() => request(call, next)) : request(call, next)),
      ...(upstreamCapabilities && { offers: upstreamCapabilities.offers }),
      ...(partner !== undefined && {
        describeMethods: (described: readonly MethodDescription[]) =>
          described.map(method => (partner.methods.includes(method.name) ? { ...method, forwarded: partner.when } : method)),
      }),
      explain(call) {
        if (upstreamCapabilities?.offers(call.method) === false) return { text: ['no upstream has the method'], ends: 'refused' }
        const { methods } = services
        const method = methods.get(call.method)
        return explainSelection({ upstreams, partner, hedge: hedge && methods.isHedgedClass(method?.class ?? 'other') }, method, call)
      },
      async stop() {
        nodes.slowNodes.stop()
        stopTracking()
      },
    })
  },
})

const checkMethods = ({ upstreams, partner }: FailoverOptions, { methods }: Services): void => {
  const forwarded = partner?.methods.map((method, i) => ({ path: ['partner', 'methods', i], method })) ?? []
  const answered = upstreams.flatMap((upstream, i) =>
    (upstream.methods ?? []).map((method, j) => ({ path: ['upstreams', i, 'methods', j], method })),
  )
  assertKnownMethods([...forwarded, ...answered], methods)
}

/** Which nodes a call of the method is sent to, in which order, as far as the options say. */
const explainSelection = (
  {
    upstreams,
    partner,
    hedge,
  }: Pick<FailoverOptions, 'upstreams' | 'hedge'> & { readonly partner: FailoverOptions['partner'] | undefined },
  method: Method | undefined,
  { method: name, lookup }: ExplainedCall,
): Explanation => {
  const forwards = partner?.methods.includes(name) === true
  return {
    text: [
      explainOrder(upstreams.filter(({ methods }) => methods === undefined || createNameMatcher(methods)(name))),
      ...explainState(upstreams, method),
      `nodes with an open breaker for the class ${method?.class ?? 'other'} get no calls; those that lag or lack the block come last`,
      explainAttempts(method, hedge),
      ...(forwards ? [explainPartner(partner, lookup)] : []),
    ],
  }
}

const explainAttempts = (method: Method | undefined, hedge: boolean): string => {
  if (method?.retryable === false) return 'sent once: it is not known whether a node that does not answer has processed the call'
  if (method?.idempotent === false)
    return 'sent to the next node when one fails, and never to two at once: "already known" from the next node is a success'
  return `sent to the next node when one fails${hedge ? ', and to a second node when it takes longer than usual' : ''}`
}

const explainState = (upstreams: FailoverOptions['upstreams'], method: Method | undefined): readonly string[] => {
  if (method?.readsState !== true) return []
  return upstreams.flatMap(({ name, archive, history }) => {
    if (archive) return [`${name} comes first for state older than 128 blocks`]
    return history === undefined ? [] : [`${name} is not requested for state older than ${history} blocks`]
  })
}

const explainOrder = (upstreams: FailoverOptions['upstreams']): string => {
  const names = upstreams.map(({ name }) => name)
  if (upstreams.every(({ weight }) => weight === undefined)) return `order: ${names.join(', then ')}`
  return `shared by weight: ${upstreams.map(({ name, weight = 1 }) => `${name} ${weight}`).join(', ')}`
}

const explainPartner = (
  { name, when }: Pick<NonNullable<FailoverOptions['partner']>, 'name' | 'when'>,
  lookup: ExplainedCall['lookup'],
): string => {
  if (lookup?.kind === 'granted' && !lookup.account.plan.forwarding)
    return `not forwarded to ${name}: the plan ${lookup.account.plan.name} has no \`forwarding: true\``
  const condition = when === 'header' ? ' and the caller sends Enable-Failover: true' : ''
  return `forwarded to ${name} when no node can answer${condition}, for plans with \`forwarding: true\``
}
