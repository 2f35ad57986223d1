/** Why a text is refused: it is not JSON, or it goes past one of the limits. */
export type Fault = 'syntax' | 'depth' | 'members' | 'elements' | 'values'

export interface Limits {
  /** How deep arrays and objects may nest. */
  readonly depth: number
  /** Most elements of a top-level array. */
  readonly elements: number
  /** Most values in the whole text. */
  readonly values: number
  /** Most members of the top-level object, or of each in the top-level array; 32 unless given. */
  readonly members?: number
}

/** Most values in a text that is to be parsed: JSON.parse takes up to 25 ms for them, but 120 ms for 1 MiB of `{},`. */
export const maxParsed = 25_000
