/**
 * Values by name, made when they are asked for. Once `maxNames` others have been asked for, a value that is not in use is forgotten.
 *
 * Two maps, of which the earlier one is dropped as a whole: a Map that lives for long, and loses its entries one by one, gets each new table in V8's
 * old generation, 55 bytes for each entry that was added, which only a full collection frees.
 */
export class RecentMap<Value> {
  readonly #maxNames: number
  readonly #create: () => Value
  readonly #isInUse: (value: Value) => boolean
  #recent = new Map<string, Value>()
  #earlier = new Map<string, Value>()
  #maxRecent: number

  constructor(maxNames: number, create: () => Value, isInUse: (value: Value) => boolean) {
    this.#maxNames = maxNames
    this.#create = create
    this.#isInUse = isInUse
    this.#maxRecent = maxNames
  }

  get(name: string): Value {
    return this.#recent.get(name) ?? this.#add(name, this.#earlier.get(name) ?? this.#create())
  }

  #add(name: string, value: Value): Value {
    if (this.#recent.size >= this.#maxRecent) this.#dropEarlier()
    this.#recent.set(name, value)
    return value
  }

  #dropEarlier(): void {
    const dropped = this.#earlier
    this.#earlier = this.#recent
    this.#recent = new Map()
    for (const [name, value] of dropped) if (this.#isInUse(value) && !this.#earlier.has(name)) this.#recent.set(name, value)
    // Twice as many as are kept: what is added never pays for all that are in use.
    this.#maxRecent = this.#maxNames + 2 * this.#recent.size
  }
}
