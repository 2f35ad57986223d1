import { useEffect } from 'preact/hooks'
import type { NetworkStatusJson } from '../../routes/networks.ts'
import { brand } from '../brand.ts'
import { now } from '../clock.ts'
import { WhenLoaded } from '../components/controls.tsx'
import { Brand, Support, ThemeSwitch } from '../components/shell.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { formatTime } from '../format.ts'
import { useRequest } from '../request.ts'
import { NetworkList, NetworksSummary } from './network-status.tsx'
import { signedOutTexts } from './signed-out-texts.ts'

/** How the networks are, for everybody; a gateway that does not tell everybody says that there is none. */
export const Status = () => {
  const networks = useRequest<readonly NetworkStatusJson[]>('/status')
  useEffect(() => {
    document.title = `${signedOutTexts.status.title} · ${brand.name}`
  }, [])
  return (
    <main class="status" id="content">
      <div class="page-heading">
        <Brand />
        <ThemeSwitch />
      </div>
      <div class="page-heading">
        <h1>{signedOutTexts.status.title}</h1>
        <time class="clock" dateTime={new Date(now.value).toISOString()}>
          {formatTime(new Date(now.value).toISOString())}
        </time>
      </div>
      <WhenLoaded from={networks} skeleton={<Skeleton height={28} />}>
        {found => (
          <>
            <NetworksSummary networks={found} />
            <NetworkList networks={found} />
          </>
        )}
      </WhenLoaded>
      <p class="buttons">
        <a href="/">{signedOutTexts.status.toDashboard}</a>
        <Support />
      </p>
    </main>
  )
}
