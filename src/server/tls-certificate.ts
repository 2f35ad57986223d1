import type { RequestListener, Server, ServerOptions } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import { dirname } from 'node:path'
import type { TLSSocket } from 'node:tls'
import type { GatewayConfig } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import { ContentWatch } from '../services/content-watch.ts'
import type { Log } from '../services/log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Gauge, Metrics } from '../services/metrics.ts'
import { expiryOf, readTlsFiles, toKeyPair, validityProblem } from '../services/tls-files.ts'
import type { TlsFileProblem, TlsFiles, TlsKeyPair, TlsTexts } from '../services/tls-files.ts'
import { ListenError } from './http-server.ts'
import type { TlsServers } from './http-server.ts'

/** The certificate of the RPC listener and the portal, where they have TLS. Throws ListenError when its files cannot be used, without texts. */
export const openTlsCertificate = (
  { tls }: GatewayConfig['listen'],
  { clock, log, metrics, texts }: Omit<TlsCertificateOptions, 'files' | 'owner'>,
): TlsCertificate | undefined => tls && new TlsCertificate({ clock, log, metrics, texts, files: tls, owner: 'listen' })

/** That of the admin listener, where it has TLS. Throws ListenError when its files cannot be used. */
export const openAdminCertificate = (
  { tls }: GatewayConfig['admin'],
  options: Omit<TlsCertificateOptions, 'files' | 'owner'>,
): TlsCertificate | undefined => tls && new TlsCertificate({ ...options, files: tls, owner: 'admin' })

interface TlsCertificateOptions {
  readonly files: TlsFiles
  /** The part of gateway.yaml that has `tls`. */
  readonly owner: 'listen' | 'admin'
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** The time that a client has for its TLS handshake, in ms of the system's clock; 10 s unless given. */
  readonly handshakeTimeoutMs?: number
  /** What the gateway serves already, in place of files that cannot be used. */
  readonly texts?: TlsTexts | undefined
}

/**
 * The certificate of the listeners of one process, read anew when its files change. Open connections keep the certificate that they began
 * with; new ones get the one that was last read without a problem.
 */
export class TlsCertificate implements TlsServers {
  readonly #options: TlsCertificateOptions
  readonly #servers = new Set<HttpsServer>()
  readonly #expiry: Gauge
  readonly #watch: ContentWatch
  #pair: TlsKeyPair

  /** Throws ListenError when the files cannot be used, without texts. */
  constructor(options: TlsCertificateOptions) {
    const { files, owner, clock, metrics, texts } = options
    this.#options = options
    const paths = [files.cert, files.key]
    // Before they are read: a change meanwhile is reported.
    this.#watch = new ContentWatch({ folders: [...new Set(paths.map(path => dirname(path)))], files: () => paths }, clock)
    const read = readTlsFiles(files)
    if (!('option' in read)) this.#pair = read
    else if (texts === undefined) throw new ListenError(`cannot serve TLS: ${owner}.tls.${read.option}: ${read.message}`)
    else {
      this.#pair = toKeyPair(texts)
      this.#logProblem(read)
    }
    this.#expiry = metrics.gauge(metricDefinitions.tlsCertificateExpiry, { option: `${owner}.tls` })
    this.#expiry.set(expiryOf(this.#pair.chain) / 1000)
    this.#watch.start(() => this.#reload())
  }

  /** What is served. */
  get texts(): TlsTexts {
    const { cert, key } = this.#pair
    return { cert, key }
  }

  /** An HTTP server that takes TLS 1.2 and 1.3 only, and HTTP/1 only (ALPN): `curl --http1.0` offers nothing else. */
  createServer(options: ServerOptions, serve: RequestListener): Server {
    const { cert, key } = this.#pair
    // Loaded only where TLS is used: 2 to 6 ms of a start.
    const { createServer } = process.getBuiltinModule('node:https')
    const { handshakeTimeoutMs: handshakeTimeout = 10_000 } = this.#options
    const tlsOptions = { minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1', 'http/1.0'], handshakeTimeout } as const
    const server = createServer({ ...options, ...tlsOptions, cert, key }, serve)
    // Before Node's own listener, which reports a malformed request: nothing can be sent, and the connection would stay open for ever.
    server.prependListener('tlsClientError', ({ code = '' }: NodeJS.ErrnoException, socket: TLSSocket) => {
      socket.destroy()
      this.#recordFailedHandshake(code)
    })
    server.once('close', () => this.#servers.delete(server))
    this.#servers.add(server)
    return server
  }

  /** With files that have a problem, the certificate from before is served on, and the log has the reason. */
  #reload(): void {
    const { files, log, clock } = this.#options
    const pair = readTlsFiles(files)
    if ('option' in pair) return this.#logProblem(pair)
    if (pair.cert === this.#pair.cert && pair.key === this.#pair.key) return
    this.#pair = pair
    for (const server of this.#servers) server.setSecureContext({ cert: pair.cert, key: pair.key, minVersion: 'TLSv1.2' })
    this.#expiry.set(expiryOf(pair.chain) / 1000)
    log.info({ event: 'tls-reloaded', file: files.cert, expires: new Date(expiryOf(pair.chain)).toISOString() }, 'TLS certificate reloaded')
    const invalid = validityProblem(pair.chain, clock.now())
    if (invalid !== undefined) log.warn({ event: 'tls-certificate-invalid', file: files.cert }, `TLS: ${invalid}`)
  }

  #logProblem({ option, message, hint }: TlsFileProblem): void {
    const { files, log } = this.#options
    const reason = hint === undefined ? message : `${message}; ${hint}`
    log.error({ event: 'tls-reload-failed', file: files[option] }, `TLS certificate not reloaded, the one from before is served: ${reason}`)
  }

  stop(): void {
    this.#watch.stop()
  }

  /** A check by a load balancer that connects and closes is no failed handshake. */
  #recordFailedHandshake(code: string): void {
    if (code === 'ECONNRESET') return
    this.#options.log.debug({ event: 'tls-handshake-failed', code }, 'TLS handshake failed')
  }
}
