import { isDeepStrictEqual } from 'node:util'
import { revealSecrets } from '../../plugin/secret.ts'
import type { Json } from '../../util/json.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import { FileKeySet } from './file-key-set.ts'
import { RemoteKeySet } from './key-set.ts'
import type { KeySet, KeySetServices } from './key-set.ts'
import { TokenVerifier } from './token-verifier.ts'
import type { JwtOptions, JwtVerifier, TokenVerifierServices } from './token-verifier.ts'

export type { JwtOptions, JwtVerifier, VerifiedToken } from './token-verifier.ts'

type JwtServices = Omit<TokenVerifierServices, 'jose'>

/** The verifier of the tokens that are accepted now; undefined when none are. */
export interface RunningJwt {
  readonly verifier: JwtVerifier | undefined
}

interface PreparedJwt {
  commit(): void
  abandon(): void
}

/** The verifier of a gateway, which a reload replaces. */
export class ReloadableJwt implements RunningJwt {
  readonly #services: JwtServices
  #options: Json = null
  #verifier: JwtVerifier | undefined

  constructor(services: JwtServices) {
    this.#services = services
    const { metrics } = services
    metrics.collect(() => {
      if (this.#verifier !== undefined)
        metrics.gauge(metricDefinitions.jwtKeysReloadSuccessful, {}).set(this.#verifier.areKeysCurrent ? 1 : 0)
    })
  }

  get verifier(): JwtVerifier | undefined {
    return this.#verifier
  }

  /** What was verified stays verified where the options have not changed. Does not wait for the keys. */
  async prepare(next: JwtOptions | undefined): Promise<PreparedJwt> {
    const options = revealSecrets(next)
    if (isDeepStrictEqual(options, this.#options)) return { commit() {}, abandon() {} }
    const verifier = next && (await openJwtVerifier(next, this.#services))
    return {
      commit: () => {
        this.close()
        this.#options = options
        this.#verifier = verifier
        this.#removeUnusedSeries()
      },
      abandon: () => {
        verifier?.close()
        this.#removeUnusedSeries()
      },
    }
  }

  #removeUnusedSeries(): void {
    if (this.#verifier === undefined)
      this.#services.metrics.removeSeries({}, [metricDefinitions.tokens, metricDefinitions.jwtKeysReloadSuccessful])
  }

  close(): void {
    this.#verifier?.close()
  }
}

/** Loads jose, and begins to fetch the keys; does not wait for them. */
export const openJwtVerifier = async (options: JwtOptions, services: JwtServices): Promise<JwtVerifier> => {
  const jose = await import('jose')
  return new TokenVerifier(options, openKeySet(options, { ...services, jose }), { ...services, jose })
}

const openKeySet = ({ jwks, keyFile }: JwtOptions, services: KeySetServices): KeySet => {
  if (jwks !== undefined) return new RemoteKeySet(new URL(jwks), services)
  if (keyFile !== undefined) return new FileKeySet(keyFile, services)
  throw new Error('jwt has no keys')
}
