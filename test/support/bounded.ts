/** More than any test takes on a busy machine, and less than the bound of a file, at which nothing says what hung. */
const boundMs = 120_000

/** Settles as `waited` does. After two minutes it rejects with the name of what was waited for, and the stack of who waits. */
export const bounded = async <T>(name: string, waited: T | PromiseLike<T>): Promise<T> => {
  const expired = new Error(`waited ${boundMs / 1_000} s for ${name}`)
  let timer: NodeJS.Timeout | undefined
  const expiry = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(expired), boundMs)
  })
  try {
    return await Promise.race([waited, expiry])
  } finally {
    clearTimeout(timer)
  }
}

const boundedClasses = new WeakSet<object>()

const maxNamedChars = 200

/**
 * Bounds what the methods of the class of `object` return, for all its objects. For a library that bounds some of its waits only: Playwright waits
 * 30 s for `page.click`, and without an end for `page.evaluate`.
 */
export const boundMethods = (name: string, object: object): void => {
  // Methods are the functions of a class.
  const methods = Object.getPrototypeOf(object) as Record<string, unknown>
  if (boundedClasses.has(methods)) return
  boundedClasses.add(methods)
  for (const [method, { value }] of Object.entries(Object.getOwnPropertyDescriptors(methods))) {
    if (typeof value !== 'function' || method === 'constructor' || method.startsWith('_')) continue
    methods[method] = function (this: unknown, ...args: readonly unknown[]): unknown {
      const result: unknown = value.apply(this, args)
      if (!(result instanceof Promise)) return result
      return bounded(`${name}.${method}(${args.map(String).join(', ').slice(0, maxNamedChars)})`, result)
    }
  }
}
