import type { Problem } from './problem.ts'
import type { GatewayConfig, NetworkConfig } from './types.ts'
import type { YamlFile } from './yaml-file.ts'

/** Does a plugin of the pipeline apply the rates of plans and keys? */
export const limitsRates = ({ steps }: Pick<NetworkConfig, 'steps'>): boolean => steps.some(({ plugin }) => plugin.limitsRates === true)

export const missingRateLimit = 'add a plugin that limits rates, such as rate-limit, to the pipeline'

/** Rates of plans that some networks do not apply. */
export const rateWarnings = (
  source: YamlFile,
  { plans }: Pick<GatewayConfig, 'plans'>,
  networks: readonly Pick<NetworkConfig, 'name' | 'steps'>[],
): readonly Problem[] => {
  const names = networks.filter(network => !limitsRates(network)).map(({ name }) => name)
  if (names.length === 0) return []
  const rates = Object.values(plans).flatMap(({ name, ...plan }) =>
    (['rate', 'creditRate'] as const).filter(rate => plan[rate] !== undefined).map(rate => ({ name, rate })),
  )
  const where = names.length === 1 ? `network ${names[0]}` : `networks ${names.join(', ')}`
  return rates.map(({ name, rate }) =>
    source.problemAtKey(['plans', name, rate], `plans.${name}.${rate} has no effect in the ${where}`, missingRateLimit),
  )
}
