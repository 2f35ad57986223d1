import type { Call, ContextKey } from '../plugin/call.ts'
import { handlerReads } from '../plugin/define-plugin.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'

type AnyContext = Readonly<Record<string, unknown>>

/**
 * Holds a plugin to its `reads` and `writes` as it runs, for development and tests: it gets a context that throws where it reads what another plugin has
 * written and it does not declare, and what it passes on must have nothing else that it does not declare.
 */
export class DeclaredContext {
  readonly #reads: ReadonlySet<string>
  readonly #writes: ReadonlySet<string>
  /** What the handler or vary() reads. */
  readonly #declared: ReadonlySet<string>

  constructor(plugin: AnyPlugin) {
    const written: readonly ContextKey[] = plugin.writes ?? []
    this.#writes = new Set(written)
    this.#declared = new Set<string>(plugin.reads)
    this.#reads = new Set([...handlerReads(plugin), ...written])
  }

  /** The call as the plugin gets it. */
  hide(call: Call): Call {
    return Object.freeze({ ...call, context: this.hideContext(call.context) })
  }

  hideContext(context: AnyContext): AnyContext {
    const declared = Object.fromEntries(Object.entries(context).filter(([key]) => this.#reads.has(key)))
    return new Proxy(Object.freeze(declared), {
      get: (target, key) => {
        if (typeof key === 'string' && !Object.hasOwn(target, key) && Object.hasOwn(context, key)) {
          const fault = this.#declared.has(key) ? ' beside vary()' : ', and does not declare it in `reads`'
          throw new TypeError(`the plugin reads \`${key}\` of the context${fault}`)
        }
        return Reflect.get(target, key) as unknown
      },
    })
  }

  /** What the plugin passes on, with all that was hidden. */
  restore(passed: Call, given: Call, original: Call): Call {
    if (passed === given) return original
    if (passed.context === given.context) return { ...passed, context: original.context }
    const [before, after]: AnyContext[] = [original.context, passed.context]
    for (const [key, value] of Object.entries(after ?? {})) {
      if (value === before?.[key] || this.#writes.has(key)) continue
      throw new TypeError(`the plugin writes \`${key}\` of the context, and does not declare it in \`writes\``)
    }
    return { ...passed, context: { ...before, ...after } }
  }
}
