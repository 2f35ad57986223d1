import type { NetworkJson } from '../../routes/networks.ts'
import { CopyText, WhenLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { NetworkList, NetworksSummary } from './network-status.tsx'
import { keyPlaceholder, newKey } from './tab-key.ts'

const text = texts.networks

export const Networks = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  return (
    <WhenLoaded from={networks} skeleton={<Skeleton height={28} />}>
      {found => (
        <>
          <NetworksSummary networks={found} />
          <p class="lead">{newKey.value === undefined ? text.replaceKey : text.withYourKey}</p>
          <NetworkList networks={found} detailsOf={network => <Urls network={network} />} />
        </>
      )}
    </WhenLoaded>
  )
}

const Urls = ({ network: { name, http, ws } }: { readonly network: NetworkJson }) => {
  const key = newKey.value?.key ?? keyPlaceholder
  return (
    <div class="urls">
      <CopyText text={`${http}/v3/${key}`} label={`${text.http} ${name}`} />
      <CopyText text={`${ws}/ws/v3/${key}`} label={`${text.ws} ${name}`} />
    </div>
  )
}
