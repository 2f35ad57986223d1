import type { KeyJson, KeySettings } from '../../key-settings.ts'
import { texts } from '../texts.ts'
import { TextField } from './controls.tsx'
import { Form, splitList, typedText } from './form.tsx'
import { MultiSelect } from './multi-select.tsx'
import { VerifyFields } from './verify-wishes.tsx'

const text = texts.keys

/** What may be chosen for a key; anything may be typed. */
export interface KeyOptions {
  readonly networks?: readonly string[]
  readonly methods?: readonly string[]
  /** Networks on which the rate of a key has no effect. */
  readonly withoutRates?: readonly string[]
}

interface RestrictionsProps extends KeyOptions {
  /** Of a key that has some. */
  readonly values?: Readonly<Record<string, string>>
  /** What the key has, where the form may change it. */
  readonly verify?: KeyJson['verify'] | undefined
  errorOf(field: string): string | undefined
}

const textLimits = [
  { name: 'dailyCredits', label: text.limit, help: text.limitHelp, type: 'number' },
  { name: 'rate', label: text.rate, help: text.rateHelp },
  { name: 'burst', label: text.burst, help: text.burstHelp, type: 'number' },
  { name: 'days', label: text.days, help: text.daysHelp, type: 'number' },
] as const

/** Where, how and how much a key may be used. Most keys have few limits: the rarer ones are shown when asked for, or when one is wrong. */
export const Restrictions = ({ networks = [], methods = [], withoutRates = [], values, verify, errorOf }: RestrictionsProps) => {
  const list = (name: 'networks' | 'methods' | 'origins' | 'ips') => ({
    ...{ key: name, name, label: text[name], value: splitList(values?.[name] ?? ''), error: errorOf(name) },
  })
  const lists = [
    <MultiSelect {...list('origins')} options={[]} isFree placeholder={text.everyOrigin} help={text.originsHelp} />,
    <MultiSelect {...list('ips')} options={[]} isFree placeholder={text.everyIp} help={text.ipsHelp} />,
  ]
  // A field that would do nothing is not offered; what a key has may be taken away.
  const offersRates = networks.length === 0 || withoutRates.length < networks.length || (values?.['rate'] ?? '') !== ''
  const fields = textLimits
    .filter(({ name }) => (values === undefined || name in values) && (offersRates || (name !== 'rate' && name !== 'burst')))
    .map(field => ({
      ...field,
      help:
        field.name === 'rate' && withoutRates.length > 0
          ? `${field.help} ${text.notEnforced} ${withoutRates.join(', ')}. ${text.noRates}`
          : field.help,
      ...{ value: values?.[field.name] ?? '', error: errorOf(field.name) },
    }))
  const isAsked =
    [...fields, list('origins'), list('ips')].some(({ error }) => error !== undefined) ||
    ['origins', 'ips', 'dailyCredits', 'rate'].some(name => (values?.[name] ?? '') !== '') ||
    (verify?.length ?? 0) > 0
  return (
    <>
      <MultiSelect {...list('networks')} options={networks} placeholder={text.everyNetwork} />
      <MultiSelect {...list('methods')} options={methods} placeholder={text.everyMethod} />
      <details class="field" open={isAsked || undefined} onInvalidCapture={event => (event.currentTarget.open = true)}>
        <summary>{text.restrictions}</summary>
        {lists}
        <div class="pairs">
          {fields.map(field => (
            <TextField key={field.name} {...field} />
          ))}
        </div>
        {!offersRates && (
          <p class="help">
            <strong>{text.rate}</strong> {text.noRateField}
          </p>
        )}
        {verify !== undefined && <VerifyFields verify={verify} />}
      </details>
    </>
  )
}

/** What was typed; what is empty is left out, or an empty list. */
const settingsOf = (values: FormData): NewKeySettings => {
  const typed = (name: string) => typedText(values, name)
  const numberOf = (name: string) => (typed(name) === '' ? undefined : Number(typed(name)))
  return {
    ...{ name: typed('name'), project: typed('project') || undefined },
    ...{ networks: splitList(values.get('networks')), methods: splitList(values.get('methods')) },
    ...{ origins: splitList(values.get('origins')), ips: splitList(values.get('ips')) },
    ...{ dailyCredits: numberOf('dailyCredits'), rate: typed('rate') || undefined, burst: numberOf('burst'), days: numberOf('days') },
    // Only the form of operators has it.
    ...(values.has('verify') && { verify: values.getAll('verify') }),
  }
}

type NewKeySettings = { readonly [Name in keyof KeySettings]: KeySettings[Name] | undefined } & {
  readonly days: number | undefined
  readonly verify?: readonly FormDataEntryValue[]
}

export interface CreateKeyProps extends KeyOptions {
  create(settings: NewKeySettings): Promise<void>
  /** For operators. */
  readonly setsVerify?: true
  /** Where the form stands in a dialog, which has the title. */
  onCancel?(): void
}

export const CreateKey = ({ create, setsVerify, onCancel, ...options }: CreateKeyProps) => (
  <Form
    title={text.create}
    {...(onCancel !== undefined && { heading: 'none' as const, onCancel })}
    send={values => create(settingsOf(values))}
  >
    {errorOf => (
      <>
        <TextField label={text.name} name="name" required placeholder={text.namePlaceholder} error={errorOf('name')} />
        <TextField label={text.project} name="project" help={text.projectHelp} error={errorOf('project')} />
        <Restrictions
          {...options}
          verify={setsVerify && []}
          errorOf={field => errorOf(field) ?? (field === 'days' ? errorOf('expires') : undefined)}
        />
      </>
    )}
  </Form>
)
