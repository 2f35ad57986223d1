import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { RequestError } from '../request.ts'
import { texts } from '../texts.ts'
import { Banner } from './banner.tsx'
import { CopyText, Notice } from './controls.tsx'

/** Sends once, also when it is clicked again before the answer; keeps what was wrong. */
export const useSending = () => {
  const error = useSignal<RequestError | undefined>(undefined)
  const isSending = useSignal(false)
  const sendOnce = async (send: () => Promise<void>): Promise<void> => {
    if (isSending.value) return
    isSending.value = true
    try {
      await send()
      error.value = undefined
    } catch (reason) {
      error.value = reason as RequestError // request() throws nothing else
    } finally {
      isSending.value = false
    }
  }
  return { error, isSending, sendOnce: (send: () => Promise<void>) => void sendOnce(send) }
}

/** The same for a form, of which the answer is kept. */
export const useSubmit = <Answer,>(send: (values: FormData) => Promise<Answer>) => {
  const answer = useSignal<Answer | undefined>(undefined)
  const { error, isSending, sendOnce } = useSending()
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    sendOnce(async () => {
      answer.value = await send(new FormData(form))
      form.reset()
    })
  }
  return { answer, error, isSending, submit }
}

/** What is wrong with the value of a field, by its name in the API. */
export type ErrorOf = (field: string) => string | undefined

interface FormProps<Answer> {
  readonly title: string
  /** None where a dialog has the title. */
  readonly heading?: 'h2' | 'h3' | 'none'
  /** Its fields stand side by side where there is room. */
  readonly isWide?: boolean
  /** The title unless given. */
  readonly button?: string
  /** It takes away what people or programs need. */
  readonly isDangerous?: boolean
  send(values: FormData): Promise<Answer>
  /** Closes what the form stands in. */
  onCancel?(): void
  readonly children: (errorOf: ErrorOf) => ComponentChildren
  /** That it has succeeded, in words. */
  success?(answer: Answer): string
  /** What is shown below the form once it was answered: a text that is shown this once stays when another attempt fails. */
  done?(answer: Answer): ComponentChildren
}

/** A form, which is sent once however often it is clicked. What is wrong with a field is said beside it, and all else above the button. */
export const Form = <Answer,>(props: FormProps<Answer>) => {
  const {
    title,
    heading: Heading = 'h2',
    isWide = false,
    button = title,
    isDangerous = false,
    send,
    onCancel,
    children,
    success,
    done,
  } = props
  const { answer, error, isSending, submit } = useSubmit(send)
  const fields = new Set<string | undefined>()
  const failed = error.value === undefined ? undefined : fieldOf(error.value)
  const content = children(field => {
    fields.add(field)
    return field === failed ? error.value?.fieldMessage : undefined
  })
  return (
    <form class={isWide ? 'card form wide' : 'card form'} onSubmit={submit} aria-label={title}>
      {Heading !== 'none' && <Heading>{title}</Heading>}
      {isWide ? <div class="fields">{content}</div> : content}
      {!fields.has(failed) && <Notice text={error.value?.status === 401 ? texts.sendAgain : error.value?.message} />}
      <div class={onCancel === undefined ? 'buttons' : 'buttons end'}>
        {onCancel !== undefined && (
          <button type="button" class="quiet" onClick={onCancel}>
            {texts.cancel}
          </button>
        )}
        <button type="submit" class={isDangerous ? 'danger final' : undefined} disabled={isSending.value}>
          {button}
        </button>
      </div>
      {/* There before what it says: a region that comes with its text is not announced everywhere. */}
      <div role="status">
        {answer.value !== undefined && error.value === undefined && success !== undefined && <p>{success(answer.value)}</p>}
        {answer.value !== undefined && done?.(answer.value)}
      </div>
    </form>
  )
}

/** The field that has the wrong member, such as `networks` for `networks.0`. */
const fieldOf = ({ field }: RequestError): string | undefined => field?.split('.')[0]

interface ShownOnceProps {
  /** It has just been made: the keyboard goes on at what copies it. */
  readonly isNew?: boolean
  readonly help: string
  readonly text: string
  readonly label: string
  onCopied?(): void
}

/** A text that is shown this once, with what to do with it. */
export const ShownOnce = ({ help, isNew = true, ...copied }: ShownOnceProps) => {
  const place = useRef<HTMLParagraphElement>(null)
  // Before the browser goes on: keys that are pressed meanwhile are not lost. A dialog that closes with this has given the focus back before.
  useLayoutEffect(() => {
    if (isNew) place.current?.querySelector('button')?.focus()
  }, [copied.text])
  return (
    <>
      <Banner tone="warn" title={help} />
      <p ref={place} class="shown-once">
        <CopyText {...copied} isPrimary />
      </p>
    </>
  )
}

/** What was typed into a field; empty where the form does not have it. */
export const typedText = (values: FormData, name: string): string => String(values.get(name) ?? '').trim()

/** What was typed, separated by commas. */
export const splitList = (value: FormDataEntryValue | null): readonly string[] =>
  String(value ?? '')
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '')
