import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { Secret } from '../../plugin/secret.ts'
import { applyChange } from '../../store/store.ts'
import type { AccountStore, KeyChange, KeyRow } from '../../store/store.ts'
import type { Clock } from '../clock.ts'

export const apiKeyPrefix = 'tg_'

/** A new API key: `tg_`, 32 random base62 characters (190 bits), and 6 more that are the CRC-32 of all before them. */
export const generateApiKey = (): Secret => {
  const body = apiKeyPrefix + randomText(bodyChars)
  return toKeySecret(body + checksum(body))
}

/** False for typing errors and random guesses, without reading the store. */
export const isWellFormedKey = (text: string): boolean =>
  text.length === apiKeyChars && keyPattern.test(text) && checksum(text.slice(0, -checksumChars)) === text.slice(-checksumChars)

/** The hash that is stored in place of a key, base64url. A random key of 190 bits needs no slow hash. */
export const hashApiKey = (text: string): string => hash('sha256', text, 'base64url')

/** A secret that prints as `tg_…abcd`, so that people can tell keys apart. */
export const toKeySecret = (text: string): Secret => new Secret(text, maskKey)

const maskKey = (text: string): string => `${apiKeyPrefix}…${keyHint(text)}`

/** The part of a key that may be shown. */
export const keyHint = (text: string): string => text.slice(-4)

export const accountIdPrefix = 'acc_'
export const keyIdPrefix = 'key_'

export const generateAccountId = (): string => accountIdPrefix + randomText(idChars)

export const generateKeyId = (): string => keyIdPrefix + randomText(idChars)

const bodyChars = 32
const idChars = 12
const checksumChars = 6
const apiKeyChars = apiKeyPrefix.length + bodyChars + checksumChars
const base62Digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const keyPattern = /^tg_[0-9A-Za-z]*$/

const randomText = (length: number): string => Array.from({ length }, () => base62Digits[randomInt(base62Digits.length)]).join('')

/** 62 ** 6 is greater than 2 ** 32: six digits are always enough. */
const checksum = (text: string): string => {
  let remainder = crc32(text)
  let encoded = ''
  for (let i = 0; i < checksumChars; i += 1) {
    encoded = base62Digits[remainder % base62Digits.length] + encoded
    remainder = Math.floor(remainder / base62Digits.length)
  }
  return encoded
}

/** A key that was just created: the only time that its text is known. */
export interface CreatedKey {
  readonly row: KeyRow
  readonly key: Secret
}

/** Adds a key to an account. */
export const createKey = async (
  store: Pick<AccountStore, 'addKey'>,
  clock: Clock,
  account: string,
  settings: KeyChange = {},
): Promise<CreatedKey> => {
  const key = generateApiKey()
  const newRow: KeyRow = { id: generateKeyId(), account, created: clock.now(), hint: keyHint(key.reveal()) }
  const row = applyChange<KeyRow>(newRow, settings)
  await store.addKey(hashApiKey(key.reveal()), row)
  return { row, key }
}

/**
 * Adds a key with the same name, lists and limits as another, which expires after `overlapMs`: until then both are accepted, so that
 * callers can change to the new key.
 */
export const rotateKey = async (
  store: Pick<AccountStore, 'addKey' | 'changeKey'>,
  clock: Clock,
  rotated: KeyRow,
  overlapMs: number,
): Promise<CreatedKey> => {
  const { id: _id, hint: _hint, account, created: _created, expires: _expires, suspended: _suspended, revoked: _revoked, ...rest } = rotated
  const created = await createKey(store, clock, account, rest)
  const expires = clock.now() + overlapMs
  if (rotated.expires === undefined || rotated.expires > expires) await store.changeKey(rotated.id, { expires })
  return created
}

/** Why a key is refused now; undefined while it is accepted. */
export const keyRefusal = ({ revoked, suspended, expires }: KeyRow, now: number): 'revoked' | 'suspended' | 'expired' | undefined => {
  if (revoked !== undefined) return 'revoked'
  if (suspended !== undefined) return 'suspended'
  return expires !== undefined && expires <= now ? 'expired' : undefined
}
