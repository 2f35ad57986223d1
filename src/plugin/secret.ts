import { inspect } from 'node:util'

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
