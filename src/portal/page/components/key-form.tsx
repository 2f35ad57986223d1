import type { KeySettings } from '../../key-settings.ts'
import { texts } from '../texts.ts'
import { TextField } from './controls.tsx'
import { Form, splitList } from './form.tsx'

const text = texts.keys

const restrictions = [
  { name: 'networks', label: text.networks, help: text.networksHelp },
  { name: 'methods', label: text.methods, help: text.methodsHelp },
  { name: 'origins', label: text.origins, help: text.originsHelp },
  { name: 'ips', label: text.ips, help: text.ipsHelp },
  { name: 'dailyCredits', label: text.limit, help: text.limitHelp, type: 'number' },
  { name: 'rate', label: text.rate, help: text.rateHelp },
  { name: 'burst', label: text.burst, help: text.burstHelp, type: 'number' },
  { name: 'days', label: text.days, help: text.daysHelp, type: 'number' },
] as const

interface RestrictionsProps {
  /** Of a key that has some. */
  readonly values?: Readonly<Record<string, string>>
  errorOf(field: string): string | undefined
}

/** Most keys have none: the fields are shown when asked for, or when one of them is wrong. */
export const Restrictions = ({ values, errorOf }: RestrictionsProps) => {
  const fields = restrictions
    .filter(({ name }) => values === undefined || name in values)
    .map(field => ({ ...field, value: values?.[field.name] ?? '', error: errorOf(field.name) }))
  return (
    <details
      class="field"
      open={values !== undefined || fields.some(({ error }) => error !== undefined) || undefined}
      onInvalidCapture={event => (event.currentTarget.open = true)}
    >
      <summary>{text.restrictions}</summary>
      {fields.map(field => (
        <TextField key={field.name} {...field} />
      ))}
    </details>
  )
}

/** What was typed; what is empty is left out, or an empty list. */
const settingsOf = (values: FormData): NewKeySettings => {
  const typed = (name: string) => String(values.get(name) ?? '').trim()
  const numberOf = (name: string) => (typed(name) === '' ? undefined : Number(typed(name)))
  return {
    ...{ name: typed('name'), networks: splitList(values.get('networks')), methods: splitList(values.get('methods')) },
    ...{ origins: splitList(values.get('origins')), ips: splitList(values.get('ips')) },
    ...{ dailyCredits: numberOf('dailyCredits'), rate: typed('rate') || undefined, burst: numberOf('burst'), days: numberOf('days') },
  }
}

type NewKeySettings = { readonly [Name in keyof KeySettings]: KeySettings[Name] | undefined } & { readonly days: number | undefined }

export const CreateKey = ({ create }: { create(settings: NewKeySettings): Promise<void> }) => (
  <Form title={text.create} send={values => create(settingsOf(values))}>
    {errorOf => (
      <>
        <TextField label={text.name} name="name" required error={errorOf('name')} />
        <Restrictions errorOf={field => errorOf(field) ?? (field === 'days' ? errorOf('expires') : undefined)} />
      </>
    )}
  </Form>
)
