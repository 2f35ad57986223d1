import { ExactNumber } from '../util/json.ts'
import type { Json } from '../util/json.ts'
import { ascii, isSpace } from './grammar.ts'

/** Most values in a text that is to be parsed: JSON.parse takes up to 25 ms for them, but 120 ms for 1 MiB of `{},`. */
export const maxParsedValues = 25_000

/**
 * The value of a text that a scanner has accepted, for texts that JSON.parse gets wrong: a number whose digits a JavaScript
 * number would change becomes an ExactNumber. V8 14.6 (Node.js 26) mistakes an escaped name for a backslash once JSON.parse
 * has read an object of the same shape with a member named by one backslash; here, names are read one by one.
 * Takes several times as long as JSON.parse.
 */
export const parseExactly = (text: string): Json => new ExactParser(text).readValue()

/** The text is valid: what stands between two values can only be what belongs there. */
class ExactParser {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  readValue(): Json {
    switch (this.#skipTo()) {
      case ascii.openObject:
        return this.#readObject()
      case ascii.openArray:
        return this.#readArray()
      case ascii.quote:
        return this.#readString()
      default:
        return this.#readScalar()
    }
  }

  /** The next character that is neither space nor one of these, without taking it. */
  #skipTo(separator?: number): number {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== separator && !isSpace(code)) return code
      this.#at++
    }
  }

  #readArray(): Json {
    const elements: Json[] = []
    this.#at++
    while (this.#skipTo(ascii.comma) !== ascii.closeArray) elements.push(this.readValue())
    this.#at++
    return elements
  }

  #readObject(): Json {
    const members: [name: string, value: Json][] = []
    this.#at++
    while (this.#skipTo(ascii.comma) !== ascii.closeObject) {
      const name = this.#readString()
      this.#skipTo(ascii.colon)
      members.push([name, this.readValue()])
    }
    this.#at++
    return Object.fromEntries(members) // defines members, so that `__proto__` is one like any other
  }

  #readString(): string {
    const start = this.#at
    let end = this.#text.indexOf('"', start + 1)
    while (this.#isEscaped(end)) end = this.#text.indexOf('"', end + 1)
    this.#at = end + 1
    const quoted = this.#text.slice(start, this.#at)
    return quoted.includes('\\') ? String(JSON.parse(quoted)) : quoted.slice(1, -1)
  }

  /** An odd number of backslashes stands before it. */
  #isEscaped(at: number): boolean {
    let start = at
    while (this.#text.charCodeAt(start - 1) === ascii.backslash) start--
    return (at - start) % 2 === 1
  }

  /** A number, true, false or null. */
  #readScalar(): Json {
    scalarPattern.lastIndex = this.#at
    const [source = ''] = scalarPattern.exec(this.#text) ?? []
    this.#at += source.length
    if (/^[a-z]/.test(source)) return JSON.parse(source) as Json // a literal
    const number = Number(source)
    return String(number) === source ? number : new ExactNumber(source)
  }
}

const scalarPattern = /[-+.\w]+/y
