import { unescape as decodePercent } from 'node:querystring'
import type { Json } from '../../plugin/call.ts'
import type { RpcError } from '../../plugin/reply.ts'
import type { Secret } from '../../plugin/secret.ts'
import { isJsonArray } from '../../util/json.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { escapeRegExp } from '../../util/name-pattern.ts'
import { publicSegment } from '../../util/path-segments.ts'
import { unicodeEscape } from '../../util/printable-text.ts'

const redaction = '***'

/** Shorter parts of a URL stand in many texts by accident. */
const minSecretChars = 4
const minPathKeyChars = 6
const minBase64Chars = 6

const prefixChars = minSecretChars

/** Of the prefix that ends with this character, by the hash of the one before: each character is shifted out after four. */
const nextHash = (hash: number, char: number): number => ((hash << 4) ^ char) & 0xffff

/** Replaces the secrets of all upstreams in what nodes say in errors: a node, or a proxy, may quote the request that it got. */
export class SecretRedactor {
  readonly #sources = new Set<string>()
  /** The texts by what they are in lower case, by the first characters of that. Thousands of upstreams have a hundred thousand. */
  readonly #patterns = new Map<string, Map<string, string>>()
  /** 1 at the hashes of the first characters. */
  readonly #hashes = new Uint8Array(0x1_0000)

  /** The parts of the URL are secrets from now on. */
  add(url: Secret): void {
    this.#add(url.reveal(), text => secretsOf(new URL(text)))
  }

  /** The value of a header is a secret from now on. */
  addHeader(value: Secret): void {
    this.#add(value.reveal(), secretsOfHeader)
  }

  #add(source: string, secretsIn: (source: string) => readonly string[]): void {
    if (this.#sources.has(source)) return
    this.#sources.add(source)
    for (const text of secretsIn(source).flatMap(encodingsOf)) {
      const pattern = text.toLowerCase()
      const prefix = pattern.slice(0, prefixChars)
      getOrCreate(this.#patterns, prefix, newPatterns).set(pattern, text)
      this.#hashes[Array.from({ length: prefixChars }, (_, i) => prefix.charCodeAt(i)).reduce(nextHash, 0)] = 1
    }
  }

  redactError({ code, message, data }: RpcError): RpcError {
    const redacted = { code, message: this.#redactText(message) }
    return data === undefined ? redacted : { ...redacted, data: this.#redactJson(data) }
  }

  #redactText(text: string): string {
    const found = [...this.#patternsIn(text.toLowerCase())].sort(([a], [b]) => b.length - a.length)
    return found.reduce((redacted, [, secret]) => redacted.replace(new RegExp(escapeRegExp(secret), 'gi'), redaction), text)
  }

  /** Most texts have none, and each character of them is looked at once. */
  #patternsIn(lowerCase: string): ReadonlyMap<string, string> {
    const found = new Map<string, string>()
    for (let end = 1, hash = 0; end <= lowerCase.length; end += 1) {
      hash = nextHash(hash, lowerCase.charCodeAt(end - 1))
      const start = end - prefixChars
      if (this.#hashes[hash] === 0 || start < 0) continue
      for (const [pattern, text] of this.#patterns.get(lowerCase.slice(start, end)) ?? [])
        if (lowerCase.startsWith(pattern, start)) found.set(pattern, text)
    }
    return found
  }

  #redactJson(value: Json): Json {
    if (typeof value === 'string') return this.#redactText(value)
    if (typeof value !== 'object' || value === null) return value
    if (isJsonArray(value)) return value.map(each => this.#redactJson(each))
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [this.#redactText(name), this.#redactJson(member)]))
  }
}

const newPatterns = (): Map<string, string> => new Map()

/** User, password, the Authorization header made of them, keys in the path, the query and its values, and the host. */
const secretsOf = ({ username, password, pathname, search, searchParams, host }: URL): readonly string[] => {
  const credentials = `${decodePercent(username)}:${decodePercent(password)}`
  const pathKeys = pathname.split('/').filter(part => part.length >= minPathKeyChars && !publicSegment.test(part))
  return [
    ...(credentials === ':' ? [] : [Buffer.from(credentials).toString('base64')]),
    host,
    search.slice(1),
    ...[credentials, username, password, ...pathKeys, ...searchParams.values()].flatMap(text => [decodePercent(text), text]),
  ].filter(text => text.length >= minSecretChars)
}

/** The value, what follows its scheme, as in `Bearer TOKEN`, and what that is as base64, as in `Basic TOKEN`. */
const secretsOfHeader = (value: string): readonly string[] => {
  const [, token = ''] = /^\w+ +(\S+)$/.exec(value) ?? []
  const user = /^basic /i.test(value) ? Buffer.from(token, 'base64').toString() : ''
  return [value, token, user, ...user.split(':')].filter(text => text.length >= minPathKeyChars && !publicSegment.test(text))
}

/** The texts by which a secret can be recognized: as it is, and as URLs, JSON, HTML, base64 and hex write it. */
const encodingsOf = (secret: string): readonly string[] => {
  const bytes = Buffer.from(secret)
  const hex = bytes.toString('hex')
  const inJson = JSON.stringify(secret).slice(1, -1)
  const base64 = [0, 1, 2].flatMap(offset => base64CoreOf(bytes, offset))
  return [
    secret,
    encodeURIComponent(secret),
    // A URL in the query of another: a proxy that redirects to a page for errors.
    encodeURIComponent(encodeURIComponent(secret)),
    hex.replace(/../g, '%$&'),
    hex,
    inJson,
    inJson.replaceAll('/', '\\/'),
    Array.from(secret, unicodeEscape).join(''),
    ...htmlEscapes.map(escapes => escapeHtml(secret, escapes)),
    ...base64,
    ...base64.map(text => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** What is escaped in HTML by most, by Go's html/template, and by Mustache. */
const htmlEscapes: readonly Readonly<Record<string, string>>[] = [
  { '"': '&quot;' },
  { '"': '&#34;', '+': '&#43;' },
  { '"': '&quot;', '/': '&#x2F;', '=': '&#x3D;', '`': '&#x60;' },
]

const escapeHtml = (text: string, escapes: Readonly<Record<string, string>>): string =>
  text.replace(/\W/g, char => escapes[char] ?? alwaysEscaped[char] ?? char)

const alwaysEscaped: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', "'": '&#39;' }

/** What base64 makes of the bytes alone, when `offset` other bytes, and any number more, stand before them. */
const base64CoreOf = (bytes: Buffer, offset: number): readonly string[] => {
  const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/, '')
  const start = Math.ceil((offset * 8) / 6)
  const core = encoded.slice(start, Math.floor(((offset + bytes.length) * 8) / 6))
  return core.length >= minBase64Chars ? [core] : []
}
