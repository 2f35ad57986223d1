import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { Secret } from '../../plugin/secret.ts'

/** A new API key: `tg_`, 32 random base62 characters (190 bits), and 6 more that are the CRC-32 of all before them. */
export const generateApiKey = (): Secret => {
  const body = apiKeyPrefix + randomText(bodyChars)
  return toKeySecret(body + checksum(body))
}

/** Could this text be a key? Tells typing errors and random guesses without a look-up. */
export const isWellFormedKey = (text: string): boolean =>
  text.length === apiKeyChars && keyPattern.test(text) && checksum(text.slice(0, -checksumLength)) === text.slice(-checksumLength)

/** What is stored in place of a key, base64url. A random key of 190 bits needs no slow hash. */
export const hashApiKey = (text: string): string => hash('sha256', text, 'base64url')

/** Hides a key so that people can still tell it from another: `tg_…abcd`. */
export const toKeySecret = (text: string): Secret => new Secret(text, maskKey)

const maskKey = (text: string): string => `${apiKeyPrefix}…${keyHint(text)}`

export const keyHint = (text: string): string => text.slice(-4)

export const generateAccountId = (): string => `acc_${randomText(12)}`

export const generateKeyId = (): string => `key_${randomText(12)}`

const apiKeyPrefix = 'tg_'
const bodyChars = 32
const checksumLength = 6
const apiKeyChars = apiKeyPrefix.length + bodyChars + checksumLength
const base62Digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const keyPattern = /^tg_[0-9A-Za-z]*$/

const randomText = (length: number): string => Array.from({ length }, () => base62Digits[randomInt(base62Digits.length)]).join('')

/** 62 ** 6 is more than 2 ** 32, so six digits always do. */
const checksum = (text: string): string => {
  let remainder = crc32(text)
  let encoded = ''
  for (let i = 0; i < checksumLength; i += 1) {
    encoded = base62Digits[remainder % base62Digits.length] + encoded
    remainder = Math.floor(remainder / base62Digits.length)
  }
  return encoded
}
