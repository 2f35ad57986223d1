import { CopyText } from '../components/controls.tsx'
import type { IssuedKey } from '../components/key-actions.tsx'
import { texts } from '../texts.ts'
import { newKey } from './tab-key.ts'
import { UseKey } from './use-key.tsx'

const text = texts.keys

/** A key that was just created, with its URLs: it is shown this once. */
export const ShowNewKey = ({ created }: { readonly created: IssuedKey }) => (
  <section class="card new-key" aria-label={text.newKey}>
    <div class="heading">
      <h2>
        {text.newKey}: {created.name}
      </h2>
      <button type="button" class="quiet" onClick={() => (newKey.value = undefined)}>
        {texts.close}
      </button>
    </div>
    <p data-testid="new-key">
      <CopyText text={created.key} label={text.newKey} />
    </p>
    <p class="lead">{text.saveNow}</p>
    <UseKey secret={created.key} limits={created} />
  </section>
)
