import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { CopyCode } from '../components/controls.tsx'
import { Tabs } from '../components/tabs.tsx'
import { developerTexts } from './developer-texts.ts'
import type { CodeSample } from './code-samples.ts'

interface CodeTabsProps {
  readonly samples: readonly CodeSample[]
  /** The key in them; undefined where they have none. */
  readonly secret: string | undefined
  /** Before and after the languages. */
  readonly before?: readonly Tab[]
  readonly after?: readonly Tab[]
}

interface Tab {
  readonly id: string
  readonly title: string
  content(isSecretShown: boolean): ComponentChildren
}

/** A call in several languages, one at a time. Who looks over a shoulder, or at a shared screen, reads no key unless it is asked for. */
export const CodeTabs = ({ samples, secret, before = [], after = [] }: CodeTabsProps) => {
  const isShown = useSignal(false)
  const { showKey, hideKey } = developerTexts.useKey
  const code = samples.map(sample => ({
    id: sample.language.replace('.', '-'),
    title: sample.language,
    content: (isSecretShown: boolean) => (
      <CopyCode text={sample.code} secret={secret} isSecretShown={isSecretShown} label={sample.language} />
    ),
  }))
  return (
    <>
      <Tabs
        label={developerTexts.useKey.code}
        tabs={[...before, ...code, ...after].map(tab => ({ ...tab, content: () => tab.content(isShown.value) }))}
      />
      {secret !== undefined && (
        <p>
          <button type="button" class="quiet small" onClick={() => (isShown.value = !isShown.value)}>
            {isShown.value ? hideKey : showKey}
          </button>
        </p>
      )}
    </>
  )
}
