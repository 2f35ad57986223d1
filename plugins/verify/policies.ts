import { createNameMatcher } from '../../src/plugin/plugin.ts'
import type { Key, Origin } from '../../src/plugin/plugin.ts'
import { provableMethods } from './provable-methods.ts'

/** What is done with the answers to a method, as the options write it: `off`, `check`, `proof`, or a quorum such as `2 of 3`. */
export type Policy = string

export const policyPattern = '^(off|check|proof|[1-9]\\d* of [1-9]\\d*)$'

/** `required` of `asked` nodes must have the same answer. */
export interface Quorum {
  readonly required: number
  readonly asked: number
}

/** Undefined for a policy that is no quorum. */
export const quorumOf = (policy: Policy): Quorum | undefined => {
  const [, required, asked] = /^(\d+) of (\d+)$/.exec(policy) ?? []
  return asked === undefined ? undefined : { required: Number(required), asked: Number(asked) }
}

/** Policies by method or pattern, as the options have them, and what says which headers are right. */
export interface PolicyOptions {
  readonly methods: Readonly<Record<string, Policy>>
  readonly agree?: number
  readonly beacon?: { readonly checkpoint: string; readonly otherwise: string }
}

/** In lower case. */
const wishHeader = 'tollgate-verify'

/** What callers may ask for with the header, where their key allows it. */
const verifyWishes = ['none', 'proof'] as const

type VerifyWish = (typeof verifyWishes)[number]

/** In place of a policy, for a call whose header is none of these, or is not allowed for its key. */
export const refusedPolicies = { unknown: 'unknown header', notAllowed: 'header not allowed' } as const

/** The method whose policy, and whose factor of the price, a method has: the plugin `subscriptions` answers eth_getFilterLogs by eth_getLogs. */
export const answeredBy = (method: string): string => (method === 'eth_getFilterLogs' ? 'eth_getLogs' : method)

/** Names come from callers. */
const maxFoundPolicies = 1_000

/** The policy of each method: that of the first pattern that matches, else `check`. */
class Policies {
  readonly #patterns: readonly { readonly matches: (name: string) => boolean; readonly policy: Policy }[]
  readonly #found = new Map<string, Policy>()
  /** `proof`, and of which headers: what other ones have proven is no answer. */
  readonly #proofVariant: string

  constructor({ methods, agree, beacon }: PolicyOptions) {
    this.#proofVariant = ['proof', agree, beacon?.checkpoint.toLowerCase(), beacon?.otherwise].filter(part => part !== undefined).join(' ')
    this.#patterns = Object.entries(methods).map(([name, policy]) => ({ matches: createNameMatcher([name]), policy }))
  }

  /** What answers vary by. */
  variantOf(policy: Policy): string {
    return policy === 'proof' ? this.#proofVariant : policy
  }

  ofVariant(variant: string): Policy {
    return variant === this.#proofVariant ? 'proof' : variant
  }

  /** The policy of a call: that of its method, unless its caller asks for another. */
  ofCall(method: string, { verify }: Pick<Key, 'verify'>, { [wishHeader]: header }: Origin['headers']): Policy {
    if (header === undefined) return this.of(method)
    const wish = verifyWishes.find(each => each === header)
    if (wish === undefined) return refusedPolicies.unknown
    return verify?.includes(wish) === true ? this.wished(method, wish) : refusedPolicies.notAllowed
  }

  /** What nothing proves is verified as for all others. */
  wished(method: string, wish: VerifyWish): Policy {
    if (wish === 'none') return 'off'
    return provableMethods.includes(answeredBy(method)) ? 'proof' : this.of(method)
  }

  of(method: string): Policy {
    const found = this.#found.get(method)
    if (found !== undefined) return found
    const policy = this.#patterns.find(({ matches }) => matches(answeredBy(method)))?.policy ?? 'check'
    if (this.#found.size >= maxFoundPolicies) this.#found.clear()
    this.#found.set(method, policy)
    return policy
  }
}

const policiesOf = new WeakMap<PolicyOptions, Policies>()
/** Of the last call: most come to one network at a time, and a WeakMap takes 20 ns. */
let last: { readonly options: PolicyOptions; readonly policies: Policies } | undefined

/** The same for the same options: vary() and create() have them. */
export const toPolicies = (options: PolicyOptions): Policies => {
  if (last?.options === options) return last.policies
  const policies = policiesOf.get(options) ?? new Policies(options)
  policiesOf.set(options, policies)
  last = { options, policies }
  return policies
}
