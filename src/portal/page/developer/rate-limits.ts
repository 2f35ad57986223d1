import type { NetworkJson } from '../../routes/networks.ts'

/** Networks on which no rate has an effect, neither of plans nor of keys. */
export const namesWithoutRates = (networks: readonly Pick<NetworkJson, 'name' | 'rateLimits'>[]): readonly string[] =>
  networks.filter(({ rateLimits }) => rateLimits === null).map(({ name }) => name)
