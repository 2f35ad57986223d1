import { dirname } from 'node:path'
import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import { ContentWatch } from '../content-watch.ts'
import { readKeyFile } from './key-file.ts'
import { KeySetUnavailable } from './key-set.ts'
import type { KeySet, KeySetServices } from './key-set.ts'

/** The keys of a file, which is read again when it changes. */
export class FileKeySet implements KeySet {
  version = 0
  isCurrent = false
  readonly #path: string
  readonly #services: KeySetServices
  readonly #watch: ContentWatch
  #getKey: JWTVerifyGetKey | undefined

  constructor(path: string, services: KeySetServices) {
    this.#path = path
    this.#services = services
    this.#watch = new ContentWatch({ folders: [dirname(path)], files: () => [path] }, services.clock)
    this.#read()
    this.#watch.start(() => this.#read())
  }

  readonly getKey: JWTVerifyGetKey = async (header, token) => {
    if (this.#getKey === undefined) throw new KeySetUnavailable('the file of keys cannot be used')
    return this.#getKey(header, token)
  }

  close(): void {
    this.#watch.stop()
  }

  /** With a file that has a problem, the keys from before are used on. */
  #read(): void {
    const { jose, log } = this.#services
    const read = readKeyFile(this.#path)
    this.isCurrent = 'keys' in read
    if (!('keys' in read)) {
      const reason = read.hint === undefined ? read.message : `${read.message}; ${read.hint}`
      log.error({ event: 'jwt-keys-unavailable', file: this.#path, reason }, `keys of tokens not loaded: ${reason}`)
      return
    }
    this.#getKey = jose.createLocalJWKSet({ keys: [...read.keys] } as JSONWebKeySet) // readKeyFile() has checked the keys
    this.version += 1
    log.info({ event: 'jwt-keys-loaded', file: this.#path }, 'keys of tokens loaded')
  }
}
