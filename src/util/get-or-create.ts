/** The parts of a Map or WeakMap that getOrCreate() needs. */
interface Store<Key, Value> {
  get(key: Key): Value | undefined
  set(key: Key, value: Value): unknown
}

/** The value under the key; created and stored when there is none. Values must not be undefined. */
export const getOrCreate = <Key, Value>(map: Store<Key, Value>, key: Key, create: (key: Key) => Value): Value => {
  const existing = map.get(key)
  if (existing !== undefined) return existing
  const created = create(key)
  map.set(key, created)
  return created
}
