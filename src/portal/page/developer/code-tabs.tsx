import type { ComponentChildren } from 'preact'
import { CopyCode } from '../components/controls.tsx'
import { Tabs } from '../components/tabs.tsx'
import { texts } from '../texts.ts'
import { codeSamples } from './code-samples.ts'
import type { SampleCall } from './code-samples.ts'

interface CodeTabsProps {
  readonly call: SampleCall
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
export const CodeTabs = ({ call, before = [], after = [] }: CodeTabsProps) => (
  <Tabs
    label={texts.tryIt.code}
    tabs={[
      ...before,
      ...codeSamples(call).map(({ language, code }) => ({
        id: language.replace('.', '-'),
        title: language,
        content: () => <CopyCode text={code} label={language} />,
      })),
      ...after,
    ]}
  />
)
