import { hash, randomBytes } from 'node:crypto'

const tokenBytes = 32
const idBytes = 12

/** A text that nobody guesses, base64url: of a link, a session, an access token, or a key that signs. */
export const generateToken = (): string => randomBytes(tokenBytes).toString('base64url')

/** What no other has, base64url; nothing that must not be guessed. */
export const randomId = (prefix = ''): string => prefix + randomBytes(idBytes).toString('base64url')

/** What is stored in place of a token, base64url: 256 random bits need no slow hash. */
export const hashToken = (token: string): string => hash('sha256', token, 'base64url')
