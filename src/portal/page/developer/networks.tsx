import type { NetworkJson } from '../../routes/networks.ts'
import { WhenLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { useRequest } from '../request.ts'
import { developerTexts } from './developer-texts.ts'
import { Urls } from './endpoints.tsx'
import { NetworkList, NetworksSummary } from './network-status.tsx'
import { KeyChoice } from './key-choice.tsx'
import { useKeyNames } from './key-names.ts'
import { knownKeys, validKey } from './tab-key.ts'

const text = developerTexts.networks

export const Networks = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const keys = useKeyNames().byId
  const chosen = validKey()
  return (
    <WhenLoaded from={networks} skeleton={<Skeleton height={28} />}>
      {found => (
        <>
          <NetworksSummary networks={found} />
          <div class="controls">
            <KeyChoice keys={keys} />
          </div>
          <p class="lead">{chosen !== undefined ? text.withYourKey : knownKeys.value.length > 0 ? text.chooseKey : text.pasteKey}</p>
          <NetworkList networks={found} detailsOf={network => <Urls network={network} secret={chosen} keys={keys} />} />
        </>
      )}
    </WhenLoaded>
  )
}
