import type { ComponentChildren } from 'preact'
import { CopyCode, useShownSecret } from '../components/controls.tsx'
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

/** A call in several languages, one at a time. */
export const CodeTabs = ({ samples, secret, before = [], after = [] }: CodeTabsProps) => {
  const code = samples.map(sample => ({
    id: sample.language.replace('.', '-'),
    title: sample.language,
    content: (isSecretShown: boolean) => (
      <CopyCode text={sample.code} secret={secret} isSecretShown={isSecretShown} label={sample.language} language={sample.language} />
    ),
  }))
  return (
    <MaskedKey secret={secret}>
      {isSecretShown => (
        <Tabs
          label={developerTexts.useKey.code}
          tabs={[...before, ...code, ...after].map(tab => ({ ...tab, content: () => tab.content(isSecretShown) }))}
        />
      )}
    </MaskedKey>
  )
}

interface MaskedKeyProps extends Pick<CodeTabsProps, 'secret'> {
  readonly children: (isSecretShown: boolean) => ComponentChildren
}

/** Who looks over a shoulder, or at a shared screen, reads no key unless it is asked for. */
export const MaskedKey = ({ secret, children }: MaskedKeyProps) => {
  const { isShown, show } = useShownSecret(secret)
  const { showKey, hideKey } = developerTexts.useKey
  return (
    <>
      {children(isShown)}
      {secret !== undefined && (
        <p class="show-key">
          <button type="button" class="quiet small" onClick={() => show(!isShown)}>
            {isShown ? hideKey : showKey}
          </button>
        </p>
      )}
    </>
  )
}
