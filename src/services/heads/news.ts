/**
 * Carries the height that callers of one network are told to others who tell it too: the workers of this gateway, or
 * gateways on other machines. What each of them hears, its callers will not be told less.
 */
export interface HeadNews {
  /**
   * Callers are about to be told this height. Undefined where nobody waits: it is on its way. Otherwise it resolves, and
   * soon, once all whom this carrier reaches know.
   */
  raise(height: number): Promise<void> | undefined
  /** The chain has become shorter: lower heights may be told again. */
  lower(height: number): void
  /** Hears, from now on, what others raise. */
  listen(hear: (height: number) => void): void
}
