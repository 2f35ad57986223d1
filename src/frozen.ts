/** Freezes plain objects and arrays through and through; bytes cannot be. Returns the value. */
export const freeze = <T>(value: T): T => {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}

/**
 * The same function, which remembers what it found about each frozen value, as long as that is in use. Frozen are the
 * parameters of requests that are asked again and again, which calls share, and what was found out about them. To
 * remember takes 30 ns.
 */
export const remembering = <Value extends object, Found>(work: (value: Value) => Found): ((value: Value) => Found) => {
  const known = new WeakMap<Value, Found>()
  return value => {
    if (!Object.isFrozen(value)) return work(value)
    const remembered = known.get(value)
    if (remembered !== undefined) return remembered
    const found = freeze(work(value))
    known.set(value, found)
    return found
  }
}
