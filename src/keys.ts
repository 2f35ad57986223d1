import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { Secret } from './secret.ts'

/** A new API key: `tg_`, 32 random base62 characters (190 bits), and 6 more that are the CRC-32 of all before them. */
export const newKey = (): Secret => {
  const body = prefix + randomText(bodyLength)
  return toSecret(body + checksum(body))
}

/** Could this text be a key? Tells typing errors and random guesses without a look-up. */
export const isKey = (text: string): boolean =>
  text.length === keyLength && form.test(text) && checksum(text.slice(0, -checkLength)) === text.slice(-checkLength)

/** What is stored in place of a key, base64url. A random key of 190 bits needs no slow hash. */
export const hashKey = (text: string): string => hash('sha256', text, 'base64url')

/** Hides a key so that people can still tell it from another: `tg_…abcd`. */
export const toSecret = (text: string): Secret => new Secret(text, showKey)

const showKey = (text: string): string => `${prefix}…${hintOf(text)}`

export const hintOf = (text: string): string => text.slice(-4)

export const newAccountId = (): string => `acc_${randomText(12)}`

export const newKeyId = (): string => `key_${randomText(12)}`

const prefix = 'tg_'
const bodyLength = 32
const checkLength = 6
const keyLength = prefix.length + bodyLength + checkLength
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = /^tg_[0-9A-Za-z]*$/

const randomText = (length: number): string => Array.from({ length }, () => digits[randomInt(digits.length)]).join('')

/** 62 ** 6 is more than 2 ** 32, so six digits always do. */
const checksum = (text: string): string => {
  let rest = crc32(text)
  let found = ''
  for (let i = 0; i < checkLength; i += 1) {
    found = digits[rest % digits.length] + found
    rest = Math.floor(rest / digits.length)
  }
  return found
}
