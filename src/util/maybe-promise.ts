/** A value that is mostly known at once. To await a known value costs a turn of the microtask queue. */
export type MaybePromise<T> = T | Promise<T>

/** Calls `next` with the value: at once when it is known, otherwise when it resolves. */
export const thenMaybe = <T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> =>
  value instanceof Promise ? value.then(next) : next(value)
