/** So many right answers beside other nodes, and a node is trusted again. */
const minRightAnswers = 100

interface Distrust {
  rightCount: number
  readonly isForGood: boolean
}

/**
 * Which nodes of a network have returned what is proven wrong, by class of methods: such a node gets no calls of the class until it has answered
 * right 100 times beside others. As one process knows it, until that ends. Distrust is about proofs: that of a class ends where nothing of it is proven any more.
 */
export class NodeTrust {
  readonly #distrusted = new Map<string, Distrust>()
  /** The classes of each pipeline that proves something: while one takes over from another, there are two. */
  readonly #proving = new Set<ReadonlySet<string>>()

  /** A pipeline proves something of these classes. Returns how to end that. */
  beginProving(methodClasses: Iterable<string>): () => void {
    const classes = new Set(methodClasses)
    this.#proving.add(classes)
    this.#forgetUnproven()
    return () => {
      if (this.#proving.delete(classes)) this.#forgetUnproven()
    }
  }

  /** No node of such a class could be trusted again. */
  #forgetUnproven(): void {
    for (const key of this.#distrusted.keys()) {
      const methodClass = key.slice(0, key.indexOf(' '))
      if (!Array.from(this.#proving).some(classes => classes.has(methodClass))) this.#distrusted.delete(key)
    }
  }

  get isAnyDistrusted(): boolean {
    return this.#distrusted.size > 0
  }

  isDistrusted(upstream: string, methodClass: string): boolean {
    return this.#distrusted.size > 0 && this.#distrusted.has(keyOf(upstream, methodClass))
  }

  /** The node may be trusted again: by what it proves, also where no other node can be asked. */
  mayProve(upstream: string, methodClass: string): boolean {
    return this.#distrusted.get(keyOf(upstream, methodClass))?.isForGood === false
  }

  /** True where the node was trusted before. What it has answered right meanwhile counts no more. */
  distrust(upstream: string, methodClass: string, { isForGood = false }: { readonly isForGood?: boolean } = {}): boolean {
    const key = keyOf(upstream, methodClass)
    const before = this.#distrusted.get(key)
    this.#distrusted.set(key, { rightCount: 0, isForGood: isForGood || before?.isForGood === true })
    return before === undefined
  }

  /** Whatever the node has returned. True where it was not trusted in some class. */
  readmit(upstream: string): boolean {
    const keys = [...this.#distrusted.keys()].filter(key => key.slice(key.indexOf(' ') + 1) === upstream)
    for (const key of keys) this.#distrusted.delete(key)
    return keys.length > 0
  }

  /** The node has answered a call of the class right, as another node or a proof shows. True where it is trusted again. */
  recordRight(upstream: string, methodClass: string): boolean {
    const key = keyOf(upstream, methodClass)
    const distrust = this.#distrusted.get(key)
    if (distrust === undefined || distrust.isForGood) return false
    distrust.rightCount += 1
    return distrust.rightCount >= minRightAnswers && this.#distrusted.delete(key)
  }
}

/** No class has a space in its name. */
const keyOf = (upstream: string, methodClass: string): string => `${methodClass} ${upstream}`
