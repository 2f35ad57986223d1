/** Most members of an item, unless ScanLimits.maxMembers is given. */
export const defaultMaxMembers = 32

/** Why a text is refused: it is not JSON, or it exceeds one of the limits. */
export type ScanError = 'syntax' | 'depth' | 'members' | 'elements' | 'values'

export interface ScanLimits {
  /** How deep arrays and objects may nest. */
  readonly maxDepth: number
  /** Most elements of a top-level array. */
  readonly maxElements: number
  /** Most values in the whole text. */
  readonly maxValues: number
  /** Most members of the top-level object, or of each in the top-level array; 32 unless given. */
  readonly maxMembers?: number
}

/** Most values in a text that is to be parsed: JSON.parse takes up to 25 ms for them, but 120 ms for 1 MiB of `{},`. */
export const maxParsedValues = 25_000
