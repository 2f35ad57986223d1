import { useSignal } from '@preact/signals'
import type { KeyJson } from '../../key-settings.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { Notice } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import type { Loaded } from '../request.ts'
import { developerTexts } from './developer-texts.ts'
import { codeSamples } from './code-samples.ts'
import { CodeTabs, MaskedKey } from './code-tabs.tsx'
import { NetworkSelect, Urls } from './endpoints.tsx'
import type { PickNetwork } from './preferred-network.ts'
import { keyPlaceholder } from './tab-key.ts'
import { AddToWallet } from './wallet.tsx'

const text = developerTexts.useKey

/** Every network has it, and it needs no parameters. */
const firstMethod = 'eth_blockNumber'

interface UseKeyProps {
  readonly networks: Loaded<readonly NetworkJson[]>
  readonly pickNetwork: PickNetwork
  /** The key itself, where this tab has it. */
  readonly secret: string | undefined
  /** What the key may do; anything unless given. */
  readonly limits?: Pick<KeyJson, 'networks' | 'methods' | 'origins'>
}

/** The URL of a network with the key in it, the first call in several languages, and the network for a wallet. */
export const UseKey = ({ networks, pickNetwork, secret, limits = { networks: [], methods: [], origins: [] } }: UseKeyProps) => {
  const chosen = useSignal<string | undefined>(undefined)
  const allowed = networks.data.value?.filter(({ name }) => limits.networks.length === 0 || limits.networks.includes(name))
  const network = allowed?.find(({ name }) => name === chosen.value) ?? pickNetwork(allowed)
  if (allowed?.length === 0) return null
  if (allowed === undefined || network === undefined)
    return networks.error.value === undefined ? <Skeleton height={11} /> : <Notice text={networks.error.value} />
  const url = `${network.http}/v3/${secret ?? keyPlaceholder}`
  const masked = (isSecretShown: boolean) => ({ secret, isSecretShown })
  const urls = {
    id: 'url',
    title: text.url,
    content: (isSecretShown: boolean) => <Urls network={network} {...masked(isSecretShown)} />,
  }
  const wallet = {
    id: 'wallet',
    title: text.wallet,
    content: (isSecretShown: boolean) => <AddToWallet key={network.name} network={network} url={url} {...masked(isSecretShown)} />,
  }
  // A call from a terminal has no origin, and so is refused to a key of some web pages.
  const mayCall = limits.origins.length === 0 && (limits.methods.length === 0 || limits.methods.includes(firstMethod))
  return (
    <>
      <NetworkSelect networks={allowed} value={network.name} onChange={name => (chosen.value = name)} />
      {mayCall ? (
        <CodeTabs
          samples={codeSamples({ url, chainId: network.chainId, method: firstMethod, params: [] })}
          secret={secret}
          before={[urls]}
          after={[wallet]}
        />
      ) : (
        <MaskedKey secret={secret}>{urls.content}</MaskedKey>
      )}
    </>
  )
}
