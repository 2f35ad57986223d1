import { isIP } from 'node:net'
import { parseAddressText } from '../util/address-set.ts'

/** What the bytes at the begin of a connection are, as a header of the PROXY protocol (HAProxy's specification, versions 1 and 2). */
export type ProxyHeader =
  /** `address` is that of the caller, empty where the proxy does not say it; undefined for a connection of the proxy itself, such as a health check. */
  | { readonly kind: 'header'; readonly byteLength: number; readonly address: string | undefined }
  | { readonly kind: 'incomplete' | 'missing' | 'malformed' }

const signatureV1 = Buffer.from('PROXY ')
const signatureV2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')

const maxBytesV1 = 107
/** The specification allows 64 KiB; proxies send some hundred bytes. */
const maxBytesV2 = 4_096

/** Reads the header as far as it has arrived. */
export const parseProxyHeader = (bytes: Buffer): ProxyHeader => {
  if (startsAlike(bytes, signatureV2)) return bytes.length < signatureV2.length + 4 ? incomplete : parseV2(bytes)
  if (startsAlike(bytes, signatureV1)) return bytes.length < signatureV1.length ? incomplete : parseV1(bytes)
  return missing
}

const incomplete = { kind: 'incomplete' } as const
const missing = { kind: 'missing' } as const
const malformed = { kind: 'malformed' } as const

const startsAlike = (bytes: Buffer, signature: Buffer): boolean => {
  const length = Math.min(bytes.length, signature.length)
  return bytes.subarray(0, length).equals(signature.subarray(0, length))
}

const linePattern = /^PROXY (?:UNKNOWN(?: .*)?|TCP([46]) (\S+) (\S+) (\d{1,5}) (\d{1,5}))$/

const parseV1 = (bytes: Buffer): ProxyHeader => {
  const end = bytes.subarray(0, maxBytesV1).indexOf('\r\n')
  if (end < 0) return bytes.length < maxBytesV1 ? incomplete : malformed
  const match = linePattern.exec(bytes.toString('latin1', 0, end))
  if (match === null) return malformed
  const [, version, source = '', destination = '', ...ports] = match
  const byteLength = end + 2
  if (version === undefined) return { kind: 'header', byteLength, address: '' }
  const areAddresses = [source, destination].every(text => isIP(text) === Number(version))
  return areAddresses && ports.every(port => Number(port) <= maxPort)
    ? { kind: 'header', byteLength, address: parseAddressText(source) }
    : malformed
}

const maxPort = 65_535

/** Signature, version and command, family and protocol, length; then the addresses, and fields that are ignored. */
const parseV2 = (bytes: Buffer): ProxyHeader => {
  const [command, family] = [bytes[12], bytes[13]]
  const byteLength = 16 + bytes.readUInt16BE(14)
  if ((command !== localCommand && command !== proxyCommand) || byteLength > maxBytesV2) return malformed
  if (bytes.length < byteLength) return incomplete
  const body = bytes.subarray(16, byteLength)
  if (command === localCommand) return { kind: 'header', byteLength, address: undefined }
  if (family === tcp4) return body.length < 12 ? malformed : { kind: 'header', byteLength, address: formatIpv4(body) }
  if (family === tcp6) return body.length < 36 ? malformed : { kind: 'header', byteLength, address: formatIpv6(body) }
  return { kind: 'header', byteLength, address: '' }
}

const [localCommand, proxyCommand, tcp4, tcp6] = [0x20, 0x21, 0x11, 0x21]

const formatIpv4 = (bytes: Buffer): string => bytes.subarray(0, 4).join('.')

/** As Node writes addresses of connections. */
const formatIpv6 = (bytes: Buffer): string => {
  if (bytes.subarray(0, 12).equals(mappedPrefix)) return formatIpv4(bytes.subarray(12))
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(2 * i).toString(16))
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

/** Of an IPv4 address in IPv6. */
const mappedPrefix = Buffer.from('00000000000000000000ffff', 'hex')
