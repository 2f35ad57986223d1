import { useSignal } from '@preact/signals'
import type { NetworkJson } from '../../routes/networks.ts'
import { CopyText, Select } from '../components/controls.tsx'
import type { SecretProps } from '../components/controls.tsx'
import { followLink } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { keyOfAccount, nameOfKey, useKeyNames } from './key-names.ts'
import type { KeysById } from './key-names.ts'
import { pickUnusedNetwork } from './preferred-network.ts'
import { keyPlaceholder, knownKeys, tabKey, validKey } from './tab-key.ts'

const text = developerTexts.networks

interface UrlsProps extends SecretProps {
  readonly network: Pick<NetworkJson, 'name' | 'http' | 'ws'>
  /** Those of the account, where the key may be one that the network refuses. */
  readonly keys?: KeysById
}

/** Those of a network, with the key in them where the tab knows it. */
export const Urls = ({ network: { name, http, ws }, keys, ...masked }: UrlsProps) => {
  const { secret } = masked
  const allowed = secret === undefined ? undefined : keys && keyOfAccount(secret, keys)?.networks
  if (allowed?.length && !allowed.includes(name)) return <p class="help">{text.notAllowed}</p>
  const key = secret ?? keyPlaceholder
  return (
    <div class="urls" key={key}>
      <CopyText {...masked} text={`${http}/v3/${key}`} label={`${text.http} ${name}`} />
      <CopyText {...masked} text={`${ws}/ws/v3/${key}`} label={`${text.ws} ${name}`} />
    </div>
  )
}

interface NetworkSelectProps {
  readonly networks: readonly Pick<NetworkJson, 'name'>[]
  readonly value: string
  onChange(name: string): void
}

/** Of which network something is shown; nothing where there is one. */
export const NetworkSelect = ({ networks, ...chosen }: NetworkSelectProps) =>
  networks.length < 2 ? null : (
    <div class="controls">
      <Select label={developerTexts.usage.network} options={networks.map(({ name }) => name)} {...chosen} />
    </div>
  )

/** Where calls go, of one network at a time. */
export const Endpoints = ({ networks }: { readonly networks: readonly NetworkJson[] }) => {
  const chosen = useSignal('')
  const secret = validKey()
  const keys = useKeyNames(knownKeys.value.length > 0).byId
  const nameOf = (key: string): string =>
    key === '' ? keyPlaceholder : nameOfKey(keyOfAccount(key, keys) ?? { name: '', hint: key.slice(-4) })
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
      <NetworkSelect networks={networks} value={network.name} onChange={name => (chosen.value = name)} />
      {knownKeys.value.length > 0 ? (
        <div class="controls">
          <Select
            label={developerTexts.usage.key}
            options={['', ...knownKeys.value].map(value => ({ value, label: nameOf(value) }))}
            value={secret ?? ''}
            onChange={value => (tabKey.value = value)}
          />
        </div>
      ) : (
        <p class="help">
          <a href="/networks" onClick={followLink}>
            {text.pasteKey}
          </a>
        </p>
      )}
      <Urls network={network} secret={secret} keys={keys} />
    </section>
  )
}
