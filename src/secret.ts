import { inspect } from 'node:util'

/**
 * A text that must not be seen: an API key, or a URL that may hold one. However it is printed (string, JSON, inspect)
 * it shows only `shown`, or what that makes of it, `***` unless told otherwise; `reveal()` alone gives the text.
 */
export class Secret {
  readonly #text: string
  readonly #shown: Shown

  constructor(text: string, shown: Shown = '***') {
    this.#text = text
    this.#shown = shown
  }

  reveal(): string {
    return this.#text
  }

  /** Not before somebody looks: one is made for each request, and few are printed. */
  #show(): string {
    return typeof this.#shown === 'string' ? this.#shown : this.#shown(this.#text)
  }

  toString(): string {
    return this.#show()
  }

  toJSON(): string {
    return this.#show()
  }

  [inspect.custom](): string {
    return this.#show()
  }
}

type Shown = string | ((text: string) => string)
