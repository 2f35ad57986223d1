import type { ComponentChildren } from 'preact'
import { CopyCode } from '../components/controls.tsx'
import { Tabs } from '../components/tabs.tsx'
import { developerTexts } from './developer-texts.ts'
import type { CodeSample } from './code-samples.ts'

interface CodeTabsProps {
  readonly samples: readonly CodeSample[]
  /** Before and after the languages. */
  readonly before?: readonly Tab[]
  readonly after?: readonly Tab[]
}

interface Tab {
  readonly id: string
  readonly title: string
  content(): ComponentChildren
}

/** A call in several languages, one at a time. */
export const CodeTabs = ({ samples, before = [], after = [] }: CodeTabsProps) => (
  <Tabs
    label={developerTexts.tryIt.code}
    tabs={[
      ...before,
      ...samples.map(({ language, code }) => ({
        id: language.replace('.', '-'),
        title: language,
        content: () => <CopyCode text={code} label={language} />,
      })),
      ...after,
    ]}
  />
)
