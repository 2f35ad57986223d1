import type { TransactionCounts } from './worker-messages.ts'

/** What one worker knows of the transactions of one network. */
export class KnownTransactions {
  readonly #onNodeChange: () => void
  #version = 0
  #counts: TransactionCounts = { transactions: 0, nodeChanges: 0 }

  constructor(onNodeChange: () => void) {
    this.#onNodeChange = onNodeChange
  }

  /** See Heads.transactionVersion. */
  get version(): number {
    return this.#version
  }

  /** There is one more. */
  record(changesNode = false): void {
    this.#version += 1
    if (changesNode) this.#onNodeChange()
  }

  /** From the primary: other counts are news. They only grow while a worker tracks the network. */
  setCounts({ transactions, nodeChanges }: TransactionCounts): void {
    if (transactions !== this.#counts.transactions) this.#version += 1
    if (nodeChanges !== this.#counts.nodeChanges) this.#onNodeChange()
    this.#counts = { transactions, nodeChanges }
  }
}
