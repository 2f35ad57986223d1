import type { Json } from '../plugin/call.ts'

/** Things that are made once, by name and settings, and last for as long as the process. */
export interface Singletons {
  get<T>(name: string, settings: Json, make: () => T): T
}

export const openSingletons = (): Singletons => {
  const instances = new Map<string, unknown>()
  return {
    get<T>(name: string, settings: Json, make: () => T): T {
      const key = `${name}\n${JSON.stringify(settings)}`
      const existing = instances.get(key)
      if (existing !== undefined) return existing as T // made below under the same name, by the same caller
      const created = make()
      instances.set(key, created)
      return created
    },
  }
}
