import { httpResponse } from '../support/node-responses.ts'
import type { NodeFault } from '../support/node-responses.ts'

const user = 'gate-user'
const password = 'pass/w0rd+7'
const pathKey = 'k3y-0f-th3-p4th'
const queryValue = 'qu3ry=v4lue&'

/** The secrets in the URL of a malicious node. */
export const secretUser = `${user}:${encodeURIComponent(password)}`
export const secretPath = `/v3/${pathKey}?token=${encodeURIComponent(queryValue)}`

const authorization = Buffer.from(`${user}:${password}`).toString('base64')
const secrets = [user, password, pathKey, queryValue, authorization]

/** How a node may write a text, and what of it gives the text away: base64 also encodes what stands before and behind. */
const encodings: Readonly<Record<string, { readonly encode: (text: string) => string; readonly skip?: number }>> = {
  'plain text': { encode: text => text },
  'capital letters': { encode: text => text.toUpperCase() },
  'URL encoding': { encode: encodeURIComponent },
  'percent encoding': { encode: text => Buffer.from(text).toString('hex').replace(/../g, '%$&') },
  hex: { encode: text => Buffer.from(text).toString('hex') },
  'escaped JSON': { encode: text => text.replace(/[^]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`) },
  base64: { encode: text => Buffer.from(text).toString('base64'), skip: 0 },
  'base64 behind a byte': { encode: text => Buffer.from(`x${text}`).toString('base64'), skip: 2 },
  'base64 behind two bytes': { encode: text => Buffer.from(`xy${text}`).toString('base64url'), skip: 3 },
}

/** Every text that must not be in anything a gateway says. */
export const encodedSecrets = secrets.flatMap(secret =>
  Object.entries(encodings).map(([encoding, { encode, skip }]) => ({
    encoding,
    text: skip === undefined ? encode(secret) : encode(secret).replace(/.=*$/, '').slice(skip),
  })),
)

/** Answers every request with an error that quotes the secrets. */
const quote =
  (encode: (text: string) => string, { code, message }: { readonly code: number; readonly message: string }, status = 200): NodeFault =>
  (socket, { id }) => {
    const quotes = secrets.map(encode)
    const error = { code, message: `${message}: ${quotes.join(', ')}`, data: { quotes, [quotes[2] ?? '']: [{ deep: quotes }] } }
    socket.write(
      httpResponse(JSON.stringify({ jsonrpc: '2.0', id, error }), { status, headers: { 'x-debug': encodeURIComponent(quotes.join()) } }),
    )
  }

const reverted = { code: 3, message: 'execution reverted' }
const internal = { code: -32603, message: 'Internal error' }

/** Nodes that quote the URL and the Authorization header of the request. `isRetried`: another node answers the call. */
export const quotingNodes: readonly { readonly name: string; readonly fault: NodeFault; readonly isRetried: boolean }[] = Object.entries(
  encodings,
).flatMap(([encoding, { encode }]) => [
  { name: `quotes its secrets in ${encoding}`, fault: quote(encode, reverted), isRetried: false },
  { name: `quotes its secrets in ${encoding}, in an internal error`, fault: quote(encode, internal), isRetried: true },
  { name: `quotes its secrets in ${encoding}, with HTTP 503`, fault: quote(encode, internal, 503), isRetried: true },
])
