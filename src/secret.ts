import { inspect } from 'node:util'

/**
 * A text that must not be seen: an API key, or a URL that may hold one. However it is printed (string, JSON, inspect)
 * it shows only what `shown` says, `***` unless told otherwise; `reveal()` alone gives the text.
 */
export class Secret {
  readonly #text: string
  readonly #shown: string

  constructor(text: string, shown = '***') {
    this.#text = text
    this.#shown = shown
  }

  reveal(): string {
    return this.#text
  }

  toString(): string {
    return this.#shown
  }

  toJSON(): string {
    return this.#shown
  }

  [inspect.custom](): string {
    return this.#shown
  }
}
