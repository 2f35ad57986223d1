import type { SeededRandom } from '../simulation/seeded-random.ts'
import { mutate } from './mutate.ts'

// Bytes that no client sends on purpose, one character per byte: requests over HTTP, and WebSocket handshakes with frames.

export interface FuzzTarget {
  /** As in a Host header. */
  readonly host: string
  readonly apiKey: string
}

type Pool = readonly [string, ...string[]]

/** A JSON-RPC call whose id occurs nowhere else: a response that has it belongs to these bytes. */
export const callWithId = (id: string): string => `{"jsonrpc":"2.0","id":"${id}","method":"eth_chainId","params":[]}`

const methods: Pool = ['POST', 'GET', 'OPTIONS', 'HEAD', 'PUT', 'CONNECT', 'TRACE', 'M-SEARCH', 'post', 'POST\t', '', 'PRI', '\x16\x03\x01']
const versions: Pool = [
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/0.9',
  'HTTP/2.0',
  'HTTP/1.2',
  'HTTP/11',
  'http/1.1',
  'HTTP/1.1 ',
  '',
  'RTSP/1.0',
  'HTTP/1.1\0',
]
const lineEnds: Pool = ['\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '']

const targets = ({ host, apiKey }: FuzzTarget): Pool => [
  `/v3/${apiKey}`,
  `/v3/${apiKey}?a=${'b'.repeat(3_000)}`,
  `http://${host}/v3/${apiKey}`,
  `http://user:password@${host}/v3/${apiKey}`,
  `http:///v3/${apiKey}`,
  `//v3/${apiKey}`,
  `/v3/${'%2e%2e/'.repeat(40)}`,
  '/v3/%00%ff%zz',
  `/v3/${'k'.repeat(9_000)}`,
  `/ws/v3/${apiKey}`,
  '*',
  host,
  '',
  '/v3/\xff\xfe',
  '/../../etc/passwd',
]

const contentLengths: Pool = [
  '-1',
  '+5',
  '5, 5',
  '0x5',
  '1e3',
  '99999999999999999999',
  '4294967296',
  ' ',
  '5\0',
  '1',
  '1048577',
  '300000000',
]
const transferCodings: Pool = [
  'chunked',
  'gzip, chunked',
  'chunked, chunked',
  'chunked;a=b',
  'identity',
  'xchunked',
  ' chunked ',
  'chunked\0',
]
const chunkSizes: Pool = [
  '-1',
  'zz',
  '0x5',
  'ffffffffffffffff',
  'fffffffffffffffff',
  '5 ',
  '',
  `5;${'e'.repeat(2_000)}`,
  '5\n',
  '00000000005',
]

const extraHeaders = (target: FuzzTarget): Pool => [
  `Host: ${target.host}`,
  'Host: ',
  'Host: a b',
  'Host : a',
  ': empty',
  'no colon',
  ' folded: line',
  'X: \0',
  'X\0: y',
  `X: ${'x'.repeat(20_000)}`,
  `${'X'.repeat(20_000)}: x`,
  Array.from({ length: 2_100 }, (_, i) => `X${i}: ${i}`).join('\r\n'),
  'Connection: close',
  'Connection: upgrade, close',
  'Connection: keep-alive, Host',
  'Upgrade: websocket',
  'Upgrade: h2c',
  'Expect: 100-continue',
  'Expect: something else',
  'Content-Encoding: gzip',
  'Content-Type: text/plain',
  'Trailer: Content-Length',
  '__proto__: x',
  'constructor: x',
]

const bodyHeaders = (body: string, random: SeededRandom): { headers: readonly string[]; body: string } => {
  if (random.chance(0.5)) return { headers: [`Content-Length: ${body.length}`], body }
  if (random.chance(0.3)) return { headers: [`Content-Length: ${random.pick(contentLengths)}`], body }
  const half = random.integer(0, body.length)
  const sizeOf = (text: string) => (random.chance(0.2) ? random.pick(chunkSizes) : text.length.toString(16))
  const chunks = [body.slice(0, half), body.slice(half)].filter(text => text !== '').map(text => `${sizeOf(text)}\r\n${text}\r\n`)
  const end = random.chance(0.8) ? '0\r\n\r\n' : random.pick(['0\r\nTrailer: x\r\n\r\n', '0\r\n', '0\r\nContent-Length: 5\r\n\r\n', ''])
  const coding = random.chance(0.7) ? 'chunked' : random.pick(transferCodings)
  const both = random.chance(0.1) ? [`Content-Length: ${body.length}`] : []
  return { headers: [`Transfer-Encoding: ${coding}`, ...both], body: chunks.join('') + end }
}

/** One request of which some part may be malformed. */
const requestBytes = (target: FuzzTarget, id: string, random: SeededRandom): string => {
  const call = random.chance(0.8) ? callWithId(id) : mutate(callWithId(id), random)
  const { headers, body } = bodyHeaders(call, random)
  const line = [
    random.chance(0.8) ? 'POST' : random.pick(methods),
    random.chance(0.8) ? `/v3/${target.apiKey}` : random.pick(targets(target)),
    random.chance(0.85) ? 'HTTP/1.1' : random.pick(versions),
  ].join(random.chance(0.95) ? ' ' : random.pick(['  ', '\t', '']))
  const all = [...(random.chance(0.95) ? [`Host: ${target.host}`] : []), 'Content-Type: application/json', ...headers]
  while (random.chance(0.3)) all.splice(random.integer(0, all.length), 0, random.pick(extraHeaders(target)))
  const lineEnd = random.chance(0.9) ? '\r\n' : random.pick(lineEnds)
  return `${line}${lineEnd}${all.join(lineEnd)}${lineEnd}${lineEnd}${body}`
}

/** One to four requests behind one another, of which the whole may be changed again. */
export const httpBytes = (target: FuzzTarget, id: string, random: SeededRandom): string => {
  const requests = Array.from({ length: random.chance(0.7) ? 1 : random.integer(2, 4) }, () => requestBytes(target, id, random))
  return random.chance(0.6) ? requests.join('') : mutate(requests.join(''), random)
}

const lengthBytes = (length: number, random: SeededRandom): string => {
  const masked = random.chance(0.9) ? 0x80 : 0
  const declared = random.chance(0.9) ? length : random.pick([0, 1, 125, 126, 127, 65_535, 65_536, 2 ** 31, 2 ** 40])
  const size = random.chance(0.9) ? (declared < 126 ? 0 : declared < 65_536 ? 2 : 8) : random.pick([2, 8])
  const digits = Array.from({ length: size }, (_, i) => String.fromCharCode(Math.floor(declared / 256 ** (size - 1 - i)) % 256)).join('')
  return String.fromCharCode(masked | (size === 0 ? declared : size === 2 ? 126 : 127)) + digits
}

/** A frame whose mask is zero, so that its payload is readable. */
const frameBytes = (opcode: number, payload: string, random: SeededRandom): string => {
  const flags = random.chance(0.85) ? 0x80 : random.pick([0x00, 0x10, 0x20, 0x40, 0xc0, 0xf0])
  return `${String.fromCharCode(flags | opcode)}${lengthBytes(payload.length, random)}\0\0\0\0${payload}`
}

const payloads = (id: string): Pool => [
  callWithId(id),
  callWithId(id),
  `[${callWithId(id)},${callWithId(id)}]`,
  '',
  '\xff\xfe',
  '\xc3',
  '\xed\xa0\x80',
  'x'.repeat(126),
  ' '.repeat(70_000),
  '\x03',
  '\x03\xe8',
  '\x03\xef\xff',
  '\x00\x00',
  '\x0f\xa0bye',
]

const opcodes: readonly [number, ...number[]] = [1, 1, 1, 2, 0, 8, 9, 10, 3, 7, 11, 15]

const handshakeHeaders = (target: FuzzTarget): readonly string[] => [
  `Host: ${target.host}`,
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]

const handshakeExtras: Pool = [
  'Sec-WebSocket-Protocol: a, b',
  'Sec-WebSocket-Protocol: a,,b',
  'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=99',
  'Sec-WebSocket-Extensions: ;;',
  'Sec-WebSocket-Version: 8',
  'Sec-WebSocket-Key: x',
  'Content-Length: 5',
  'Transfer-Encoding: chunked',
  'Expect: 100-continue',
]

/** A handshake, and one to six frames behind it. */
export const webSocketBytes = (target: FuzzTarget, id: string, random: SeededRandom): string => {
  const headers = [...handshakeHeaders(target), ...(random.chance(0.15) ? [random.pick(handshakeExtras)] : [])]
  const handshake = `GET /ws/v3/${target.apiKey} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`
  const frames = Array.from({ length: random.integer(1, 6) }, () =>
    frameBytes(random.pick(opcodes), random.pick(payloads(id)), random),
  ).join('')
  return (random.chance(0.9) ? handshake : mutate(handshake, random)) + (random.chance(0.7) ? frames : mutate(frames, random))
}
