import type { KeyJson } from '../../key-settings.ts'
import { texts } from '../texts.ts'
import { Checkbox } from './controls.tsx'

const text = texts.keys.verify

interface VerifyWishesProps {
  readonly verify: KeyJson['verify']
}

/** What callers with the key may ask for, in words; nothing for most keys. */
export const VerifyWishes = ({ verify }: VerifyWishesProps) =>
  verify.length === 0 ? null : (
    <p class="help">
      {text.mayAsk} {verify.map(wish => text.wishes[wish]).join(', ')}
    </p>
  )

/** For operators: developers cannot set it. */
export const VerifyFields = ({ verify }: VerifyWishesProps) => (
  <fieldset class="choices">
    <legend>{text.title}</legend>
    {(['proof', 'none'] as const).map(wish => (
      <Checkbox key={wish} label={text.wishes[wish]} name="verify" value={wish} isChecked={verify.includes(wish)} />
    ))}
    <p class="help">{text.help}</p>
  </fieldset>
)
