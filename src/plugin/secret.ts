import { inspect } from 'node:util'

/**
 * A text that must not be seen: an API key, or a URL that may hold one. However it is printed (string, JSON, inspect)
 * it shows only `shown`, or what that makes of it, `***` unless told otherwise; `reveal()` alone gives the text.
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

  /** Not before somebody looks: one is made for each request, and few are printed. */
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
