import type { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { dirname, resolve } from 'node:path'
import { systemClock } from '../services/clock.ts'
import { readTlsFiles, validityProblem } from '../services/tls-files.ts'
import type { ListedHost } from './hosts.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

export interface TlsCheck {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** The certificate of the RPC listener; undefined when it has none, or when the files have problems. */
  readonly certificate?: X509Certificate
}

/** Reads the files of `listen.tls` and of `admin.tls`. Where an option is missing or has the wrong type, the schema has reported it. */
export const checkTls = (source: YamlFile): TlsCheck => {
  const { chain, ...listen } = checkFiles(source, 'listen')
  const admin = checkFiles(source, 'admin')
  const certificate = chain?.[0]
  return {
    problems: [...listen.problems, ...admin.problems],
    warnings: [...listen.warnings, ...admin.warnings],
    ...(certificate && { certificate }),
  }
}

interface FilesCheck extends Pick<TlsCheck, 'problems' | 'warnings'> {
  readonly chain?: readonly X509Certificate[]
}

const checkFiles = (source: YamlFile, owner: 'listen' | 'admin'): FilesCheck => {
  const path = [owner, 'tls']
  const [cert, key] = [source.textAt([...path, 'cert']), source.textAt([...path, 'key'])]
  if (!cert || !key) return { problems: [], warnings: [] }
  const directory = dirname(source.path)
  const read = readTlsFiles({ cert: resolve(directory, cert), key: resolve(directory, key) })
  if ('option' in read) {
    const { option, message, hint } = read
    return { problems: [source.problemAt([...path, option], `${owner}.tls.${option}: ${message}`, hint)], warnings: [] }
  }
  const invalid = validityProblem(read.chain, systemClock.now())
  const warnings = invalid === undefined ? [] : [source.problemAt([...path, 'cert'], `${owner}.tls.cert: ${invalid}`)]
  return { problems: [], warnings, chain: read.chain }
}

/** Hosts of networks that clients would not reach, as the certificate does not name them. Loopback hosts are for tests. */
export const hostsWithoutCertificate = (certificate: X509Certificate, hosts: readonly ListedHost[]): readonly Problem[] =>
  hosts
    .filter(({ host }) => !isLoopback(host) && !isNamedBy(certificate, host))
    .map(({ source, path }) =>
      source.problemAt(path, 'the certificate of listen.tls does not name this host: clients will refuse it', namesOf(certificate)),
    )

const isLoopback = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost') || /^127\.|^::1$/.test(host)

const isNamedBy = (certificate: X509Certificate, host: string): boolean =>
  (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined

const namesOf = ({ subjectAltName }: X509Certificate): string =>
  subjectAltName === undefined ? 'it names no host: it needs a subjectAltName' : `it names ${subjectAltName}`
