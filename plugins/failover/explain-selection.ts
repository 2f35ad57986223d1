import { createNameMatcher } from '../../src/plugin/plugin.ts'
import type { ExplainedCall, Explanation, Method } from '../../src/plugin/plugin.ts'
import type { FailoverOptions } from './failover-options.ts'

/** Which nodes a call of the method is sent to, in which order, as far as the options say. */
export const explainSelection = (
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
      `nodes without an open breaker for the class ${method?.class ?? 'other'} come first, then those that lag or lack the block`,
      method?.idempotent === false
        ? 'sent once: it is not known whether a node that does not answer has processed the call'
        : `sent to the next node when one fails${hedge ? ', and to a second node when it takes longer than usual' : ''}`,
      ...(forwards ? [explainPartner(partner, lookup)] : []),
    ],
  }
}

const explainState = (upstreams: FailoverOptions['upstreams'], method: Method | undefined): readonly string[] =>
  method?.readsState !== true
    ? []
    : upstreams.flatMap(({ name, archive, history }) =>
        archive
          ? [`${name} comes first for state older than 128 blocks`]
          : history === undefined
            ? []
            : [`${name} is not requested for state older than ${history} blocks`],
      )

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
