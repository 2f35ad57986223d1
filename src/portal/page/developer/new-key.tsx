import type { NetworkJson } from '../../routes/networks.ts'
import { ShownOnce } from '../components/form.tsx'
import type { IssuedKey } from '../components/key-actions.tsx'
import { useRequest } from '../request.ts'
import { developerTexts } from './developer-texts.ts'
import { usePreferredNetwork } from './preferred-network.ts'
import { newKey } from './tab-key.ts'
import { UseKey } from './use-key.tsx'

const text = developerTexts.keys

interface ShowNewKeyProps {
  readonly created: IssuedKey
  /** Since the page is shown. */
  readonly isNew: boolean
}

/** A key that was just created, with its URLs: it is shown this once. */
export const ShowNewKey = ({ created, isNew }: ShowNewKeyProps) => (
  <section class="card new-key" aria-label={text.newKey} data-testid="new-key">
    <h2>
      {text.newKey}: {created.name}
    </h2>
    <ShownOnce isNew={isNew} help={text.saveNow} text={created.key} label={text.newKey} />
    <UseKey
      networks={useRequest<readonly NetworkJson[]>('/networks')}
      pickNetwork={usePreferredNetwork()}
      secret={created.key}
      limits={created}
    />
    <div class="buttons">
      <button type="button" class="quiet" onClick={() => (newKey.value = undefined)}>
        {text.saved}
      </button>
    </div>
  </section>
)
