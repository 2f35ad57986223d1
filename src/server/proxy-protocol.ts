import type { Server } from 'node:http'
import { isIP } from 'node:net'
import type { Socket } from 'node:net'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { LogInterval } from '../services/log-interval.ts'
import { AddressSet, parseAddressText } from '../util/address-set.ts'
import { maxPort } from '../util/host-name.ts'

/** A proxy sends its header as soon as it has connected. */
const headerTimeoutMs = 5_000

/** Why a connection was closed. */
type RefusalReason = 'missing' | 'malformed' | 'timeout' | 'untrusted'

interface ProxyProtocolOptions {
  readonly trustedProxies: readonly string[]
  readonly clock: Clock
  readonly log: Log
  /** addressOf() has the address of the caller from now on; the connection may be refused. */
  onAddress?(socket: Socket): void
}

/**
 * The PROXY protocol: a trusted proxy begins each connection with a header, which says whose connection it is. A connection from elsewhere is
 * one of a caller, and must not have the header.
 */
export class ProxyProtocol {
  readonly #trusted: AddressSet
  readonly #options: ProxyProtocolOptions
  /** Connections that the server has got. */
  readonly #accepted = new WeakSet<Socket>()
  /** By both ends of the connection, which a TLS socket shows as the socket below it does. */
  readonly #addresses = new Map<string, { readonly address: string }>()
  readonly #logInterval: LogInterval

  constructor(options: ProxyProtocolOptions) {
    this.#options = options
    this.#logInterval = new LogInterval(options.clock)
    this.#trusted = new AddressSet(options.trustedProxies)
  }

  /** From now on, the server gets a connection once its header has been read. */
  attach(server: Server): void {
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => {
      const accept = (): void => {
        this.#accepted.add(socket)
        for (const listener of listeners) Reflect.apply(listener, server, [socket])
      }
      if (socket.destroyed) return // above the limit of connections
      if (socket.remoteAddress === undefined) return void socket.destroy() // reset already: nobody knows by whom
      if (this.#accepted.has(socket))
        accept() // its upgrade was ignored, and the server got it back
      else this.#readHeader(socket, accept)
    })
  }

  /** The address of the caller, empty where it is not known; undefined where the connection is not that of another. */
  addressOf(socket: SocketEnds): string | undefined {
    return this.#addresses.get(endsOf(socket))?.address
  }

  #readHeader(socket: Socket, accept: () => void): void {
    const isTrusted = this.#trusted.has(socket.remoteAddress ?? '')
    let bytes: Buffer = Buffer.alloc(0)
    const end = (): void => {
      timer.cancel()
      socket.off('readable', read).off('end', endEarly).off('error', ignore)
    }
    const refuse = (reason: RefusalReason): void => {
      end()
      this.#recordRefusal(reason, socket)
      socket.destroy()
    }
    /** Without a byte it is a check by a load balancer. */
    const endEarly = (): void => {
      if (bytes.length > 0) refuse('malformed')
      else socket.destroy()
    }
    const read = (): void => {
      const chunk = socket.read() as Buffer | null // the socket has no encoding
      if (chunk === null) return
      bytes = Buffer.concat([bytes, chunk])
      const header = parseProxyHeader(bytes)
      if (header.kind === 'incomplete') return
      if (isTrusted && header.kind !== 'header') return refuse(header.kind)
      if (!isTrusted && header.kind !== 'missing') return refuse('untrusted')
      end()
      if (header.kind === 'header' && header.address !== undefined) this.#setAddress(socket, header.address)
      if (socket.destroyed) return
      const rest = header.kind === 'header' ? bytes.subarray(header.byteLength) : bytes
      if (rest.length > 0) socket.unshift(rest)
      accept()
    }
    // A caller that connects and is silent is no fault of a proxy.
    const timer = this.#options.clock.after(headerTimeoutMs, () => (isTrusted ? refuse('timeout') : socket.destroy()))
    socket.once('close', () => timer.cancel())
    socket.on('error', ignore).on('end', endEarly).on('readable', read)
  }

  #setAddress(socket: Socket, address: string): void {
    const [ends, entry] = [endsOf(socket), { address }]
    this.#addresses.set(ends, entry)
    socket.once('close', () => {
      if (this.#addresses.get(ends) === entry) this.#addresses.delete(ends)
    })
    this.#options.onAddress?.(socket)
  }

  #recordRefusal(reason: RefusalReason, { remoteAddress }: Socket): void {
    if (this.#logInterval.begin('proxy-header-refused'))
      this.#options.log.warn({ event: 'proxy-header-refused', reason, address: remoteAddress }, explanations[reason])
  }
}

const explanations: Readonly<Record<RefusalReason, string>> = {
  missing: 'connection closed: the trusted proxy sent no header of the PROXY protocol',
  malformed: 'connection closed: the header of the PROXY protocol is malformed',
  timeout: 'connection closed: no header of the PROXY protocol arrived in time',
  untrusted: 'connection closed: it began with a header of the PROXY protocol, and listen.trustedProxies does not name the address',
}

type SocketEnds = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress'>

/** A proxy may use one port for connections to several addresses of this machine. */
const endsOf = ({ remoteAddress, remotePort, localAddress }: SocketEnds): string => `${remoteAddress} ${remotePort} ${localAddress}`

const ignore = (): void => undefined

/** What the bytes at the begin of a connection are, as a header of the PROXY protocol (HAProxy's specification, versions 1 and 2). */
type ProxyHeader =
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
