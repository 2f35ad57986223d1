/** A connection that calls are sent over. */
export interface LoadConnection {
  /** Sends call `n`, whose JSON text is `message`. */
  send(n: number, message: string): void
  close(): void
}

/** What a line tells: each answer as it came, and the one fault that ends it. */
export interface ConnectionListener {
  onResponse(line: LoadConnection, n: number, status: number, body: readonly Buffer[]): void
  onError(reason: string): void
}

/** Ids have as many digits whatever `n` is, so that all answers to one kind of call are equally long. */
export const requestIdOf = (n: number): number => 10_000_000 + n
