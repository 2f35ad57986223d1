import { revealSecrets } from '../plugin/secret.ts'
import { getOrCreate } from '../util/memoize.ts'

/** Objects that pipelines share, by name and settings. An object lives as long as a pipeline refers to it. */
export interface Singletons {
  /** The references of a new pipeline: none yet. */
  newReferences(): SingletonReferences
}

/** The objects that one pipeline refers to. */
export interface SingletonReferences {
  /** The object of this name and these settings; made when no pipeline refers to it. Throws after release(). */
  get<T>(name: string, settings: unknown, make: () => T): T
  /**
   * Drops all references. An object that no other pipeline refers to is closed: its close(), or else its stop(), is
   * called, and the objects made last come first. Rejects when one fails, after the others have been closed. Safe twice.
   */
  release(): Promise<void>
}

export const openSingletons = (): Singletons => {
  const instances = new Map<string, Instance>()
  return { newReferences: () => new PipelineReferences(instances) }
}

interface Instance {
  readonly value: unknown
  /** How many pipelines refer to it. */
  references: number
}

class PipelineReferences implements SingletonReferences {
  readonly #instances: Map<string, Instance>
  /** In the order of first use. */
  readonly #held = new Map<string, Instance>()
  #isReleased = false

  constructor(instances: Map<string, Instance>) {
    this.#instances = instances
  }

  get<T>(name: string, settings: unknown, make: () => T): T {
    if (this.#isReleased) throw new Error(`singleton ${name} was requested by a pipeline that has been stopped`)
    const key = JSON.stringify([name, revealSecrets(settings)])
    const instance = getOrCreate(this.#held, key, () => {
      const shared = getOrCreate(this.#instances, key, () => ({ value: make(), references: 0 }))
      shared.references += 1
      return shared
    })
    return instance.value as T // made above under the same name, by the same caller
  }

  async release(): Promise<void> {
    this.#isReleased = true
    const unused = [...this.#held].filter(([, instance]) => (instance.references -= 1) === 0).reverse()
    this.#held.clear()
    // Before the first await: a pipeline that is built meanwhile makes new objects.
    for (const [key] of unused) this.#instances.delete(key)
    const errors: unknown[] = []
    for (const [, { value }] of unused) await close(value).catch((error: unknown) => errors.push(error))
    if (errors.length > 0) throw new AggregateError(errors, `${errors.length} singletons did not close`)
  }
}

/** Most objects have neither method: memory is freed when nobody refers to them. */
const close = async (value: unknown): Promise<void> => {
  if (typeof value !== 'object' || value === null) return
  if ('close' in value && typeof value.close === 'function') await value.close()
  else if ('stop' in value && typeof value.stop === 'function') await value.stop()
}
