import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'
import { connectionProblem } from '../request.ts'
import type { Loaded } from '../request.ts'
import { texts } from '../texts.ts'
import { EmptyState } from './empty-state.tsx'
import { Icon } from './icon.tsx'
import { Skeleton } from './skeleton.tsx'
import { TextWithCode } from './text-with-code.tsx'

interface FieldProps {
  readonly label: string
  readonly help?: string | undefined
  readonly error?: string | undefined
  readonly children: (ids: { readonly id: string; readonly describedBy: string | undefined }) => ComponentChildren
}

/** Terminals have straight quotes around names. */
const quoteNames = (text: string): string => text.replace(/"([^"]+)"/g, '“$1”')

/** A control with its label, its help, and what is wrong with its value. */
export const Field = ({ label, help, error, children }: FieldProps) => {
  const id = useId()
  const noteId = `${id}-note`
  const note = error ?? help
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, describedBy: note === undefined ? undefined : noteId })}
      {note !== undefined && (
        <p id={noteId} class={error === undefined ? 'help' : 'error'} role={error === undefined ? undefined : 'alert'}>
          <TextWithCode text={quoteNames(note)} />
        </p>
      )}
    </div>
  )
}

interface TextFieldProps {
  readonly label: string
  readonly name: string
  readonly help?: string | undefined
  readonly error?: string | undefined
  readonly required?: boolean
  readonly type?: 'text' | 'password' | 'number' | 'email'
  readonly value?: string
  readonly placeholder?: string
  /** What the browser may fill in: nothing unless given. */
  readonly autocomplete?: 'email' | 'current-password'
}

export const TextField = ({
  label,
  name,
  help,
  error,
  required = false,
  type = 'text',
  value = '',
  placeholder,
  autocomplete,
}: TextFieldProps) => (
  <Field label={label} help={help} error={error}>
    {({ id, describedBy }) => (
      <input
        id={id}
        name={name}
        // Preact has a type of its own for each kind of input.
        type={type as 'text'}
        required={required}
        defaultValue={value}
        placeholder={placeholder}
        autocomplete={autocomplete ?? 'off'}
        spellcheck={false}
        aria-describedby={describedBy}
        aria-invalid={error !== undefined}
      />
    )}
  </Field>
)

interface CheckboxProps {
  readonly label: string
  readonly name: string
  /** Of one of several with this name. */
  readonly value?: string
  /** Until somebody clicks, unless the page follows what is chosen. */
  readonly isChecked: boolean
  onChange?(): void
}

export const Checkbox = ({ label, name, value, isChecked, onChange }: CheckboxProps) => {
  const id = useId()
  const checked = onChange === undefined ? { defaultChecked: isChecked } : { checked: isChecked, onChange }
  return (
    <p class="checkbox">
      <input id={id} name={name} value={value} type="checkbox" {...checked} />
      <label for={id}>{label}</label>
    </p>
  )
}

interface SelectProps<Value extends string> {
  readonly label: string
  readonly help?: string | undefined
  readonly options: readonly (Value | { readonly value: Value; readonly label: string })[]
  readonly value: Value
  onChange(value: Value): void
}

export const Select = <Value extends string>({ label, help, options, value, onChange }: SelectProps<Value>) => (
  <Field label={label} help={help}>
    {({ id, describedBy }) => (
      // Its value is that of one of the options.
      <select id={id} value={value} aria-describedby={describedBy} onChange={event => onChange(event.currentTarget.value as Value)}>
        {options.map(option => {
          const { value: optionValue, label: optionLabel } = typeof option === 'string' ? { value: option, label: option } : option
          return (
            <option key={optionValue} value={optionValue} selected={optionValue === value}>
              {optionLabel}
            </option>
          )
        })}
      </select>
    )}
  </Field>
)

interface CopyProps {
  readonly text: string
  readonly label: string
  /** The first thing that is done with it. */
  readonly isPrimary?: boolean
  onCopied?(): void
}

export interface SecretProps {
  /** In the text, which is copied as a whole; only its ends are shown. */
  readonly secret?: string | undefined
  /** Somebody wants to see it. */
  readonly isSecretShown?: boolean
}

/** Another secret in its place is masked, until it is asked for too. */
export const useShownSecret = (secret = '') => {
  const shown = useSignal('')
  return { isShown: shown.value === secret, show: (isShown: boolean) => void (shown.value = isShown ? secret : '') }
}

const maskSecret = (text: string, secret: string): string => text.replace(secret, `${secret.slice(0, 3)}…${secret.slice(-4)}`)

/** A text on one line to copy, such as a URL. */
export const CopyText = ({ text, secret = '', isSecretShown = false, ...props }: CopyProps & SecretProps) => {
  const code = useRef<HTMLElement>(null)
  const { isShown, show } = useShownSecret(secret)
  return (
    <span class="copy">
      <code ref={code} tabIndex={0}>
        {isSecretShown || isShown ? text : maskSecret(text, secret)}
      </code>
      <CopyButton text={text} hasKey={secret !== ''} {...props} element={code} onRefused={() => show(true)} />
    </span>
  )
}

interface CopyCodeProps extends CopyProps, SecretProps {
  /** Above it, beside the button. */
  readonly language?: string
}

/** Code to copy. */
export const CopyCode = ({ text, secret = '', isSecretShown = false, label, language }: CopyCodeProps) => {
  const code = useRef<HTMLPreElement>(null)
  const { isShown, show } = useShownSecret(secret)
  return (
    <div class="copy-code">
      <div class="code-heading">
        <span>{language}</span>
        <CopyButton text={text} hasKey={secret !== ''} label={label} element={code} onRefused={() => show(true)} />
      </div>
      <pre ref={code} tabIndex={0}>
        {isSecretShown || isShown ? text : maskSecret(text, secret)}
      </pre>
    </div>
  )
}

interface CopyButtonProps extends CopyProps {
  /** Has the text. */
  readonly element: { readonly current: HTMLElement | null }
  /** Whole, where the text that is shown has its ends alone. */
  readonly hasKey: boolean
  /** The text is to be shown as a whole, to be selected. */
  onRefused?(): void
}

const CopyButton = ({ text, label, isPrimary = false, hasKey, onCopied, element, onRefused }: CopyButtonProps) => {
  const isCopied = useSignal(false)
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      isCopied.value = true
      onCopied?.()
      setTimeout(() => (isCopied.value = false), 2_000)
    } catch {
      // Without https, or where it is not allowed: the text is selected, for the keys that copy.
      onRefused?.()
      if (element.current !== null) getSelection()?.selectAllChildren(element.current)
    }
  }
  const action = isCopied.value ? texts.copied : hasKey ? texts.copyWithKey : texts.copy
  return (
    <>
      <button type="button" class={isPrimary ? 'small' : 'quiet small'} aria-label={`${action}: ${label}`} onClick={() => void copy()}>
        <Icon name={isCopied.value ? 'check' : 'copy'} />
        {action}
      </button>
      <span class="unseen" role="status">
        {isCopied.value && texts.copied}
      </span>
    </>
  )
}

interface RowButtonProps {
  readonly label: string
  /** What the row is about, for those who do not see it. */
  readonly of: string
  /** Callers would notice. */
  readonly isDangerous?: boolean
  onClick(): void
}

/** A button in a row of a table. */
export const RowButton = ({ label, of, isDangerous = false, onClick }: RowButtonProps) => (
  <button type="button" class={isDangerous ? 'danger' : 'quiet'} aria-label={`${label} ${of}`} onClick={onClick}>
    {label}
  </button>
)

const takeFocus = (element: HTMLElement | null): void => element?.focus()

/**
 * What is asked for twice. The keyboard goes on at the button that cancels, and then at the one that asks: a button that is gone would take
 * the focus with it.
 */
export const useConfirmation = () => {
  const isAsking = useSignal(false)
  const hasAsked = useRef(false)
  const ask = (): void => {
    hasAsked.current = true
    isAsking.value = true
  }
  return {
    isAsking: isAsking.value,
    ask,
    cancel: () => void (isAsking.value = false),
    cancelRef: takeFocus,
    askRef: hasAsked.current ? takeFocus : null,
  }
}

interface SearchFieldProps {
  readonly label: string
  readonly value: string
  onInput(value: string): void
}

/** Finds among what is shown, while it is typed in. */
export const SearchField = ({ label, value, onInput }: SearchFieldProps) => (
  <div class="field search">
    <Icon name="search" />
    <input type="search" aria-label={label} placeholder={label} value={value} onInput={event => onInput(event.currentTarget.value)} />
  </div>
)

interface WhenLoadedProps<T> {
  readonly from: Pick<Loaded<T>, 'data' | 'error' | 'reload'>
  /** As large as what will be shown; some lines unless given. */
  readonly skeleton?: ComponentChildren
  readonly children: (data: T) => ComponentChildren
}

/** Shows what was read, once it is there; and what went wrong when it was read last, unless the whole page says so. */
export const WhenLoaded = <T,>({ from: { data, error, reload }, skeleton = <Skeleton />, children }: WhenLoadedProps<T>) => {
  const problem = error.value === connectionProblem.value?.text ? undefined : error.value
  if (data.value === undefined) {
    if (error.value === undefined) return skeleton
    return problem === undefined ? null : <NotLoaded reason={problem} retry={reload} />
  }
  return (
    <>
      <Notice text={problem} />
      {children(data.value)}
    </>
  )
}

interface WhileReadProps {
  readonly from: Pick<Loaded<unknown>, 'isOutdated'>
  readonly children: ComponentChildren
}

/** Until the figures of what is chosen now have been read: says so, and dims those of what was chosen before. */
export const WhileRead = ({ from: { isOutdated }, children }: WhileReadProps) => (
  <div class={isOutdated ? 'outdated' : undefined} aria-busy={isOutdated}>
    {/* There before what it says: a region that comes with its text is not announced everywhere. */}
    <p class="reading" role="status">
      {isOutdated && texts.loading}
    </p>
    <div>{children}</div>
  </div>
)

interface NotLoadedProps {
  readonly reason?: string
  retry(): void
}

/** In the place of what could not be read. */
export const NotLoaded = ({ reason, retry }: NotLoadedProps) => (
  <EmptyState
    icon="stop"
    title={texts.notLoaded}
    actions={
      <button type="button" class="quiet" onClick={retry}>
        {texts.tryAgain}
      </button>
    }
  >
    {reason && <span role="alert">{reason}</span>}
  </EmptyState>
)

/** What went wrong, announced to those who do not see it. */
export const Notice = ({ text }: { readonly text: string | undefined }) =>
  text === undefined ? null : (
    <p class="notice" role="alert">
      <Icon name="errors" />
      <span>
        <TextWithCode text={quoteNames(text)} />
      </span>
    </p>
  )
