import { useSignal } from '@preact/signals'
import type { NetworkJson } from '../../routes/networks.ts'
import { CopyText, Select } from '../components/controls.tsx'
import { followLink } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { keyOfAccount, useKeyNames } from './key-names.ts'
import type { KeysById } from './key-names.ts'
import { pickUnusedNetwork } from './preferred-network.ts'
import { keyPlaceholder, validKey } from './tab-key.ts'

const text = developerTexts.networks

interface UrlsProps {
  readonly network: Pick<NetworkJson, 'name' | 'http' | 'ws'>
  readonly secret: string | undefined
  /** Those of the account. */
  readonly keys: KeysById
}

/** Those of a network, with the key in them where the tab knows it, unless the network refuses that key. */
export const Urls = ({ network: { name, http, ws }, secret, keys }: UrlsProps) => {
  const allowed = secret === undefined ? undefined : keyOfAccount(secret, keys)?.networks
  if (allowed?.length && !allowed.includes(name)) return <p class="help">{text.notAllowed}</p>
  const key = secret ?? keyPlaceholder
  return (
    <div class="urls" key={key}>
      <CopyText text={`${http}/v3/${key}`} secret={secret} label={`${text.http} ${name}`} />
      <CopyText text={`${ws}/ws/v3/${key}`} secret={secret} label={`${text.ws} ${name}`} />
    </div>
  )
}

/** Where calls go, of one network at a time. */
export const Endpoints = ({ networks }: { readonly networks: readonly NetworkJson[] }) => {
  const chosen = useSignal('')
  const secret = validKey()
  const keys = useKeyNames(secret !== undefined).byId
  const network = networks.find(({ name }) => name === chosen.value) ?? pickUnusedNetwork(networks)
  if (network === undefined) return null
  return (
    <section class="card failures" aria-label={text.endpoints}>
      <div class="heading">
        <h2>{text.endpoints}</h2>
        <a href="/try-it" onClick={followLink}>
          {developerTexts.pages.tryIt}
        </a>
      </div>
      {networks.length > 1 && (
        <div class="controls">
          <Select
            label={developerTexts.usage.network}
            options={networks.map(({ name }) => name)}
            value={network.name}
            onChange={name => (chosen.value = name)}
          />
        </div>
      )}
      <Urls network={network} secret={secret} keys={keys} />
    </section>
  )
}
