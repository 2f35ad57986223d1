/** A measured value of an attack. A figure with a limit fails the run when its value is above the limit, or not a number. */
export interface Figure {
  readonly name: string
  readonly value: number
  readonly unit?: string
  readonly limit?: number
}

export interface AttackOptions {
  /** The same seed gives the same attack, up to the timing of the machine. */
  readonly seed: number
  /** How much longer than the short run of the continuous integration: 1 for that run. */
  readonly scale: number
  /** Of an attack with cases, only those with this text in their names, whatever the scale. */
  readonly cases?: string
  /** Of an attack on a store, so many accounts that do not call. */
  readonly accounts?: number
  log(line: string): void
}

/** Something that a caller, a node, an operator's file or the machine does to a gateway. Starts and ends its own processes. */
export interface Attack {
  readonly name: string
  readonly summary: string
  run(options: AttackOptions): Promise<readonly Figure[]>
}

/** A figure that must be zero. */
export const mustBeZero = (name: string, value: number): Figure => ({ name, value, limit: 0 })

export const isFailed = ({ value, limit }: Figure): boolean => limit !== undefined && !(value <= limit)
