import { inspect } from 'node:util'
import type { Json } from '../util/json.ts'

/**
 * A text that must not be printed: an API key, or a URL that may hold one. As a string, in JSON and in inspect() it is
 * replaced by the redaction, `***` unless given; only reveal() returns the text.
 */
export class Secret {
  readonly #value: string
  readonly #redacted: Redaction

  constructor(value: string, redacted: Redaction = '***') {
    this.#value = value
    this.#redacted = redacted
  }

  reveal(): string {
    return this.#value
  }

  /** Computed when it is printed: a Secret is created for each request, and few are printed. */
  #redact(): string {
    return typeof this.#redacted === 'string' ? this.#redacted : this.#redacted(this.#value)
  }

  toString(): string {
    return this.#redact()
  }

  toJSON(): string {
    return this.#redact()
  }

  [inspect.custom](): string {
    return this.#redact()
  }
}

type Redaction = string | ((text: string) => string)

/** Plain data with each Secret as its text: to compare settings, or for messages between processes of one gateway. Never to be printed. */
export const revealSecrets = (value: unknown): Json => {
  if (value instanceof Secret) return value.reveal()
  if (Array.isArray(value)) return value.map(revealSecrets)
  if (typeof value !== 'object' || value === null) return (value ?? null) as Json // a primitive of plain data
  return Object.fromEntries(Object.entries(value).flatMap(([name, item]) => (item === undefined ? [] : [[name, revealSecrets(item)]])))
}
