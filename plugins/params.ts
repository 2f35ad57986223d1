import { LRUCache } from 'lru-cache'
import {
  closestMatch,
  directStage,
  formatSuggestion,
  getOrCreate,
  Misconfigured,
  refuseUnknownMethod,
  memoizeFrozen,
} from '../src/plugin/internal.ts'
import type { DirectHandler, MethodOverride, MethodDescription, MethodTable } from '../src/plugin/internal.ts'
import { definePlugin, refuse, withContext } from '../src/plugin/plugin.ts'
import type { CallContext, Explanation, Method, Services } from '../src/plugin/plugin.ts'

/** The fields of a table entry that this plugin uses. Other plugins read the table itself, without these overrides. */
const overridableFields: readonly string[] = ['params', 'answer']

/** The methods of the network, and the rules of their parameters (contract 2.4, 4.2 to 4.5 and 8). */
export default definePlugin({
  name: 'params',
  summary: 'Refuses unknown methods and invalid parameters; answers methods that need no node.',
  whenMissing: 'callers may use every method of the node, those that administer it included',
  options: {
    type: 'object',
    properties: {
      strict: {
        type: 'boolean',
        default: false,
        description: 'Requires parameters that the method table marks `unless strict`: the block of eth_getStorageAt.',
      },
      methods: {
        type: 'object',
        additionalProperties: {},
        default: {},
        description:
          'By method: `false` withdraws the method, `params` and `answer` replace those of the method table. New methods may be added.',
        examples: [{ eth_getProof: false }],
      },
      offer: {
        type: 'array',
        items: { type: 'string', minLength: 1 },
        default: [],
        description: 'Methods of the table with `offered: false` that this network offers: names, or patterns in which `*` is any text.',
        examples: [['eth_sign', 'debug_*']],
      },
      tags: {
        type: 'object',
        additionalProperties: { type: 'array', items: { type: 'string' } },
        default: {},
        description: 'By method: the block tags that this network accepts, when they are fewer than in the method table.',
        examples: [{ eth_getLogs: ['latest', 'earliest', 'pending', 'finalized'] }],
      },
    },
  },
  reads: ['request'],
  writes: ['request'],
  check({ methods }, report) {
    for (const [name, override] of Object.entries(methods)) {
      // create() refuses an override that is no object.
      const fields = typeof override === 'object' && override !== null ? Object.keys(override) : []
      for (const field of fields.filter(each => !overridableFields.includes(each))) {
        report(['methods', name, field], `methods.${name}.${field} has no effect here: it belongs in the method table`)
      }
    }
  },
  create({ strict, methods: overrides, tags, offer }, services) {
    // with() checks the overrides, whose type the options schema leaves open.
    const overridden = withOptionPath('methods', () => services.methods.with(overrides as Readonly<Record<string, MethodOverride>>, {}))
    const restricted = withOptionPath('tags', () => overridden.with({}, tags))
    const offered = withOptionPath('offer', () => restricted.offering(offer))
    const methods = strict ? offered.strict() : offered

    const openRpcFor = createDiscovery(methods, services)
    /** The method that was probably meant, if the network offers it. Few edits: to compare with all 160 methods then takes at most 60 us. */
    const findMeant = (name: string): string | undefined => {
      const meant = name.length > maxComparedChars ? undefined : closestMatch(name, methods.names, maxTypos)
      return meant !== undefined && services.offers(meant) ? meant : undefined
    }

    const handle: DirectHandler<'request', 'request'> = (call, next) => {
      const { method: name, params } = call.context.request
      const method = methods.get(name)
      if (method === undefined) return refuseUnknownMethod(name, findMeant(name))
      const checked = method.check(params)
      if ('issue' in checked) return invalidParams(checked)
      if (method.answer !== undefined) return { source: 'local', result: method.answer }
      if (method.discovers === true) return { source: 'local', result: openRpcFor(call.context) }
      return next(withContext(call, { request: { method: name, params: checked.params } }))
    }
    return directStage({
      handle,
      offers(name) {
        const method = methods.get(name)
        return method !== undefined && (method.answer === undefined && method.discovers !== true ? true : 'answered')
      },
      describeMethods: described => describeOffered(methods, described),
      explain: ({ method }) => explainMethod(methods.get(method), findMeant(method)),
    })
  },
})

/** The methods that the network offers, with the rules of their parameters. */
const describeOffered = (methods: MethodTable, described: readonly MethodDescription[]): readonly MethodDescription[] => {
  const before = new Map(described.map(method => [method.name, method]))
  return methods.names.flatMap(name => {
    const params = methods.get(name)?.describeParams()
    return params === undefined ? [] : [{ credits: methods.defaultCost, ...before.get(name), name, params }]
  })
}

/** Names of methods are shorter. */
const maxComparedChars = 40

const maxTypos = 2

const explainMethod = (method: Method | undefined, meant: string | undefined): Explanation => {
  if (method === undefined)
    return { text: [`the method is not offered${meant === undefined ? '' : `; ${formatSuggestion(meant)}`}`], ends: 'refused' }
  const text = method.describeParams().map(({ title, optional, accepts, default: value }, i) => {
    const presence = optional ? `, optional${value === undefined ? '' : `: ${JSON.stringify(value)} by default`}` : ''
    return `params[${i}], the ${title}: ${accepts}${presence}`
  })
  if (method.discovers === true) return { text: ['answers an OpenRPC document of what the key may call'], ends: 'answered' }
  const withoutParams = 'issue' in method.check([null]) ? 'takes no parameters' : 'params have no rules'
  if (method.answer === undefined) return { text: text.length === 0 ? [withoutParams] : text }
  return { text: [...text, `answers ${Buffer.from(method.answer).toString()} itself: no node is requested`], ends: 'answered' }
}

/** Callers with the same methods at the same costs get the same document, which takes 2 ms to make. */
const createDiscovery = (methods: MethodTable, { describeMethods }: Services): ((context: Partial<CallContext>) => Uint8Array) => {
  let documents: LRUCache<string, Uint8Array> | undefined
  return context => {
    // Most networks are never asked.
    documents ??= new LRUCache({ max: maxCachedDocuments })
    const described = describeMethods(context)
    const key = described.map(({ name, credits }) => `${name}:${credits}`).join()
    return getOrCreate<string, Uint8Array>(documents, key, () => methods.toOpenRpc(described))
  }
}

/** Keys with a list of methods of their own are few; a document takes 50 KB. */
const maxCachedDocuments = 16

const invalidParams = memoizeFrozen(({ issue }: { readonly issue: string }) => refuse('params', { message: issue }))

/** Puts the option before the path of each issue, which begins at a method's name or at a position. */
const withOptionPath = (option: string, change: () => MethodTable): MethodTable => {
  try {
    return change()
  } catch (error) {
    if (!(error instanceof Misconfigured)) throw error
    const textOf = (message: string) => `${option}${message.startsWith('[') ? '' : '.'}${message}`
    throw new Misconfigured(error.issues.map(({ path, message }) => ({ path: [option, ...path], message: textOf(message) })))
  }
}
