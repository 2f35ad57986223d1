import { LRUCache } from 'lru-cache'

/**
 * So many values by text: the least recently used one makes room. Limited by `maxSize`, each value being 1: for `max`, lru-cache allocates all at
 * once, which for 100,000 took 8 ms of a start, and 2 MB, and for the 512 headers of each network 13 KB.
 */
export const boundedCache = <Value extends object | boolean>(maxValues: number): LRUCache<string, Value> =>
  new LRUCache<string, Value>({ maxSize: maxValues, sizeCalculation: () => 1 })
