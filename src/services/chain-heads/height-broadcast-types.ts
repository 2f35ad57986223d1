/**
 * Carries the height that callers of one network are told to others who tell it too: the workers of this gateway, or
 * gateways on other machines. Whoever has heard of a height tells its callers no less.
 */
export interface HeightBroadcast {
  /**
   * Callers are about to be told this height. Undefined where nobody waits: it is on its way. Otherwise it resolves, and
   * soon, once all whom this carrier reaches know.
   */
  raise(height: number): Promise<void> | undefined
  /** The chain has become shorter: lower heights may be told again. */
  lower(height: number): void
  /** Hears, from now on, what others would tell their callers. */
  subscribe(listener: HeightListener): void
}

/** Others have a greater height, from the named node if that is one of ours. Gives the height that may be told. */
export type HeightListener = (height: number, upstream?: string) => number | Promise<number>
