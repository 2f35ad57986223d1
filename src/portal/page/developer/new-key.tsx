import type { NetworkJson } from '../../routes/networks.ts'
import { CopyCode, CopyText } from '../components/controls.tsx'
import type { IssuedKey } from '../components/key-actions.tsx'
import { useRequest } from '../request.ts'
import { followLink } from '../router.ts'
import { texts } from '../texts.ts'
import { newKey } from './tab-key.ts'
import { codeSamples } from './try-call.ts'

const text = texts.keys

export const ShowNewKey = ({ created }: { readonly created: IssuedKey }) => (
  <section class="card new-key" aria-label={text.newKey}>
    <h2>
      {text.newKey}: {created.name}
    </h2>
    <p data-testid="new-key">
      <CopyText text={created.key} label={text.newKey} />
    </p>
    <p>{text.saveNow}</p>
    <FirstCall created={created} />
    <button type="button" onClick={() => (newKey.value = undefined)}>
      {texts.close}
    </button>
  </section>
)

const firstMethod = 'eth_blockNumber'

/** A call with the key, to be pasted into a terminal; nothing where the key would refuse it. */
const FirstCall = ({ created: { key, networks, methods, origins } }: { readonly created: IssuedKey }) => {
  const found = useRequest<readonly NetworkJson[]>('/networks').data.value
  const network = found?.find(({ name }) => networks.length === 0 || networks.includes(name))
  const isAllowed = origins.length === 0 && (methods.length === 0 || methods.includes(firstMethod))
  if (network === undefined || !isAllowed) return null
  const [curl] = codeSamples(network, firstMethod, [], key)
  return (
    <>
      <p>
        {text.firstCall}{' '}
        <a href="/try-it" onClick={followLink}>
          {texts.pages.tryIt}
        </a>
      </p>
      <CopyCode text={curl?.code ?? ''} label="curl" />
    </>
  )
}
