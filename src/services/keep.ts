import type { Json } from '../call.ts'

/** Things that are made once, by name and settings, and last for as long as the process. */
export interface Keeper {
  keep<T>(name: string, settings: Json, make: () => T): T
}

export const openKeeper = (): Keeper => {
  const kept = new Map<string, unknown>()
  return {
    keep<T>(name: string, settings: Json, make: () => T): T {
      const key = `${name}\n${JSON.stringify(settings)}`
      const known = kept.get(key)
      if (known !== undefined) return known as T // made below under the same name, by the same caller
      const fresh = make()
      kept.set(key, fresh)
      return fresh
    },
  }
}
