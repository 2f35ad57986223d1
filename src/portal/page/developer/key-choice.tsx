import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { OwnKeyJson } from '../../routes/keys.ts'
import { Field, Select } from '../components/controls.tsx'
import { followLink } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { session } from './developer-session.ts'
import { keyOfAccount, nameOfKey } from './key-names.ts'
import type { KeysById } from './key-names.ts'
import { findKey, keepKey, knownKeys, tabKey } from './tab-key.ts'

const text = developerTexts.tabKey

interface KeyChoiceProps {
  /** Those of the account. */
  readonly keys: KeysById
  /** The id of the key that is chosen where the tab knows it. */
  readonly wanted?: string | undefined
}

/** `Origins: https://dapp.example`, of each limit that the key has. */
const acceptedBy = (key: OwnKeyJson | undefined): readonly string[] =>
  key === undefined
    ? []
    : (['networks', 'methods', 'origins', 'ips'] as const)
        .filter(name => key[name].length > 0)
        .map(name => `${developerTexts.keys.short[name].replace(/^[A-Z](?=[a-z])/, first => first.toLowerCase())} ${key[name].join(', ')}`)

/** One of the keys that the tab knows, by name; or another one, which is typed once. */
export const KeyChoice = ({ keys, wanted }: KeyChoiceProps) => {
  const isTyping = useSignal(false)
  // What came or went when a key has been typed would move the button below, while it is clicked.
  const isListed = useRef(knownKeys.peek().length > 0).current
  const wantedKey = wanted === undefined ? undefined : keys.get(wanted)
  const found = wantedKey && findKey(wantedKey)
  useEffect(() => {
    if (found !== undefined) tabKey.value = found
  }, [found])
  const isKnown = !isTyping.value && knownKeys.value.includes(tabKey.value)
  const nameOf = (key: string): string => nameOfKey(keyOfAccount(key, keys) ?? { name: '', hint: key.slice(-4) })
  const accepted = isKnown ? acceptedBy(keyOfAccount(tabKey.value, keys)) : []
  const choose = (key: string): void => void ([isTyping.value, tabKey.value] = [key === '', key])
  return (
    <>
      {isListed && (
        <Select
          label={text.key}
          options={[...knownKeys.value.map(value => ({ value, label: nameOf(value) })), { value: '', label: text.another }]}
          value={isKnown ? tabKey.value : ''}
          onChange={choose}
          help={accepted.length > 0 ? `${text.accepts} ${accepted.join('; ')}` : undefined}
        />
      )}
      {!isKnown && (
        <Field label={isListed ? text.another : text.key} help={text.help}>
          {({ id, describedBy }) => (
            <input
              id={id}
              name="key"
              type="password"
              value={tabKey.value}
              placeholder="tg_…"
              autocomplete="off"
              spellcheck={false}
              aria-describedby={describedBy}
              onInput={({ currentTarget }) => ([isTyping.value, tabKey.value] = [true, currentTarget.value.trim()])}
              onChange={() => keepKey(tabKey.value)}
            />
          )}
        </Field>
      )}
      {wantedKey !== undefined && (isTyping.value || found === undefined) && (
        <p class="help">
          {text.madeWith} <strong>{nameOfKey(wantedKey)}</strong>.
        </p>
      )}
      {!isListed && session.value?.person.role !== 'viewer' && (
        <p class="help">
          <a href="/keys" onClick={followLink}>
            {developerTexts.keys.create}
          </a>{' '}
          {text.toChoose}
        </p>
      )}
    </>
  )
}
