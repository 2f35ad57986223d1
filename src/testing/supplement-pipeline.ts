import type { Problem } from '../config/problem.ts'
import type { StepDraft } from '../config/steps.ts'
import { Secret, definePlugin, isJsonObject, refuse, withContext } from '../plugin/plugin.ts'
import type { Account, AnyPlugin, Call, CallContext, Json, Key, Request, Target } from '../plugin/plugin.ts'
import type { ContextKey } from '../plugin/call.ts'
import { didYouMean } from '../util/did-you-mean.ts'

/** Values of context keys; plugins may have declared keys of their own. */
export type SuppliedContext = Partial<CallContext> & Readonly<Record<string, unknown>>

type SuppliedStep = Pick<StepDraft, 'name' | 'plugin' | 'step' | 'problemAtStep'>

/** The steps that a part of a pipeline lacks: one that writes the context that is read, and one that goes upstream. */
export const supplementPipeline = (
  drafts: readonly StepDraft[],
  context: SuppliedContext,
): { readonly above: readonly SuppliedStep[]; readonly below: readonly SuppliedStep[] } => {
  const written = new Set(drafts.flatMap(({ plugin }) => keysOf(plugin?.writes)))
  const isTerminal = drafts.at(-1)?.plugin?.terminal === true
  // What another step writes is not supplied, wherever that step stands: a wrong order is a problem.
  const isWrittenByOther = (key: ContextKey, reader: StepDraft) =>
    drafts.some(draft => draft !== reader && keysOf(draft.plugin?.writes).includes(key))
  const missing = drafts.flatMap(draft => requiredKeys(draft.plugin).filter(key => !isWrittenByOther(key, draft)))
  const supplied = [...new Set([...missing, ...Object.keys(context)])] as ContextKey[] // keys of plugins are not known to the types
  for (const key of supplied) assertKnown(key, context, written)
  return {
    above: supplied.length === 0 ? [] : [toStep(supplyContext(supplied, context))],
    below: isTerminal ? [] : [toStep(sendUpstream)],
  }
}

/** A plugin that shares answers needs the request, also where it does not read it. */
const requiredKeys = (plugin: AnyPlugin | undefined): readonly ContextKey[] => [
  ...keysOf(plugin?.reads),
  ...keysOf(plugin?.variesBy),
  ...(plugin?.shares === true ? (['request'] as const) : []),
]

const keysOf = (keys: readonly ContextKey[] = []): readonly ContextKey[] => keys

const suppliedKeys = ['request', 'key', 'account', 'target', 'upstreams'] as const

const assertKnown = (key: string, context: SuppliedContext, written: ReadonlySet<string>): void => {
  if (Object.hasOwn(context, key) || (suppliedKeys as readonly string[]).includes(key)) return
  const hint = didYouMean(key, [...suppliedKeys, ...written]) ?? 'give its value in `context`'
  throw new Error(`the context key \`${key}\` is read, and no step writes it: ${hint}`)
}

const suppliedAccount: Account = {
  id: 'acc_test',
  name: 'test',
  plan: { name: 'core', dailyCredits: 1_000_000, forwarding: false },
}
const suppliedKey: Key = { id: 'key_test' }
const suppliedTarget: Target = { name: 'own', url: new Secret('http://own.test'), source: 'node' }

const supplyContext = (keys: readonly ContextKey[], context: SuppliedContext): AnyPlugin =>
  definePlugin({
    name: 'test-context',
    summary: 'Writes the context that the pipeline of a test reads.',
    options: { type: 'object', properties: {} },
    writes: keys,
    create:
      (_options, { accounts }) =>
      async (call, next) => {
        const lookup = call.origin.key && (await accounts.find(call.origin.key))
        const { key, account } = lookup?.kind === 'granted' ? lookup : { key: suppliedKey, account: suppliedAccount }
        const all: SuppliedContext = {
          request: requestOf(call.message),
          key,
          account,
          target: suppliedTarget,
          upstreams: [suppliedTarget],
          ...context,
        }
        // Every one of them has a value: assertKnown().
        return next(withContext(call, Object.fromEntries(keys.map(name => [name, all[name]])) as unknown as CallContext))
      },
  })

const requestOf = (message: Json): Request => {
  const { method, params } = isJsonObject(message) ? message : {}
  return { method: typeof method === 'string' ? method : '', params: Array.isArray(params) ? params : [] }
}

const maxResponseBytes = 2 ** 25
const timeoutMs = 10_000

const sendUpstream = definePlugin({
  name: 'test-upstream',
  summary: 'Sends each call upstream.',
  options: { type: 'object', properties: {} },
  terminal: true,
  create:
    (_options, { upstreamClient }) =>
    async ({ message, origin, signal, context }: Call) => {
      const { request = requestOf(message), target = suppliedTarget }: Partial<CallContext> = context
      const limits = { timeoutMs, maxBytes: maxResponseBytes, signal: signal ?? origin.signal }
      return request.method === '' ? refuse('invalid') : upstreamClient.request(target, request, limits)
    },
})

const toStep = (plugin: AnyPlugin): SuppliedStep => {
  const problemAt = (_path: unknown, message: string): Problem => ({ file: plugin.name, line: 1, column: 1, message })
  return {
    name: plugin.name,
    plugin,
    step: { name: plugin.name, plugin, options: {}, problemAt },
    problemAtStep: message => problemAt([], message),
  }
}
