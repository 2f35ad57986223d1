import type { NetworkJson } from '../../routes/networks.ts'
import { Banner } from '../components/banner.tsx'
import { ContactSupport } from '../components/shell.tsx'
import { developerTexts } from './developer-texts.ts'

const text = developerTexts.rateLimits

/** Networks on which no rate has an effect, neither of plans nor of keys. */
export const namesWithoutRates = (networks: readonly Pick<NetworkJson, 'name' | 'rateLimits'>[]): readonly string[] =>
  networks.filter(({ rateLimits }) => rateLimits === null).map(({ name }) => name)

interface RateWithoutEffectProps {
  /** Nothing is said where there is none. */
  readonly networks: readonly string[]
  /** Whose rate it is. */
  readonly of: string
}

/** Somebody relies on a limit that limits nothing. */
export const RateWithoutEffect = ({ networks, of }: RateWithoutEffectProps) =>
  networks.length === 0 ? null : (
    <Banner tone="warn" title={`${text.noEffect} ${networks.join(', ')}`}>
      {text.rateOf} {of} {text.why} <ContactSupport />
    </Banner>
  )
